//! EAL arguments: what is added so that DPDK starts without root, hugepages and a NIC.

/// DPDK's own name for a run-time folder.
const DEFAULT_PREFIX: &str = "rte";

/// The whole argument vector, program name first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Args {
    pub argv: Vec<String>,
    /// Name of the run-time folder; `None` for a process that runs in that of another.
    pub prefix: Option<String>,
}

/// DPDK's limit is on ids, which begin with the main lcore.
const WORKERS_MAX: usize = weir_dpdk_sys::weir_limit::WEIR_MAX_LCORE as usize - 1;

/// Options that say how much memory.
const AMOUNT: &[&str] = &["-m", "--socket-mem", "--numa-mem"];

/// Options that choose where memory comes from, or what kind of process this is: all but `--no-huge` mean hugepages.
const MEMORY: &[&str] = &[
    "--in-memory",
    "--huge-dir",
    "--huge-unlink",
    "--socket-mem",
    "--socket-limit",
    "--numa-mem",
    "--numa-limit",
    "--single-file-segments",
    "--legacy-mem",
    "--match-allocations",
    "--proc-type",
];

/// Options that bring devices of a bus.
const HARDWARE: &[&str] = &["--allow", "--block", "-a", "-b"];
const NO_PCI: &str = "--no-pci";
const NO_HUGE: &str = "--no-huge";
const LCORES: &[&str] = &["--lcores", "--main-lcore", "--remap-lcore-ids", "-l", "-c", "-s", "-S", "-R"];
const PREFIX: &[&str] = &["--file-prefix", "--proc-type"];

impl Args {
    /// `given` with a default for each matter it does not settle. `mebibytes`: memory for a process without hugepages,
    /// which cannot get more later.
    pub(crate) fn complete(given: &[String], mebibytes: Option<u64>, pid: u32, cpus: &[usize]) -> Self {
        let has = |options: &[&str]| has_any(given, options);
        let mut argv = vec!["weir".to_owned()];
        if !wants_hugepages(given) {
            if !has(&[NO_HUGE]) {
                argv.push(NO_HUGE.into());
            }
            if let Some(mebibytes) = mebibytes.filter(|_| !has(AMOUNT)) {
                argv.extend(["-m".into(), mebibytes.to_string()]);
            }
        }
        if !has(HARDWARE) && !has(&[NO_PCI]) {
            argv.push(NO_PCI.into());
        }
        if !has(PREFIX) {
            argv.push(format!("--file-prefix=weir-{pid}"));
        }
        if !places_lcores(given) && !cpus.is_empty() {
            argv.push(format!("--lcores={}", floating_main_and_workers(cpus)));
        }
        if !has(&["--log-level"]) {
            argv.push("--log-level=warning".into());
            // Warns at each start that nobody uses the socket of DPDK 18.
            argv.push("--log-level=lib.telemetry:error".into());
        }
        argv.extend_from_slice(given);
        Self::of(argv)
    }

    /// `given` and nothing else.
    pub(crate) fn exact(given: &[String]) -> Self {
        Self::of(std::iter::once("weir".to_owned()).chain(given.iter().cloned()).collect())
    }

    fn of(argv: Vec<String>) -> Self {
        let primary = value(&argv, "--proc-type").is_none_or(|kind| kind == "primary");
        let prefix = value(&argv, "--file-prefix").unwrap_or(DEFAULT_PREFIX);
        let prefix = primary.then(|| prefix.to_owned());
        Self { argv, prefix }
    }

    pub(crate) fn has(&self, option: &str) -> bool {
        self.argv.iter().any(|arg| is(arg, option))
    }
}

/// The last value of an option, `--opt=value` or `--opt value`.
pub fn value<'a>(argv: &'a [String], option: &str) -> Option<&'a str> {
    let at = argv.iter().rposition(|arg| is(arg, option))?;
    let value = argv[at].strip_prefix(option)?.strip_prefix('=');
    value.or_else(|| argv.get(at + 1).map(String::as_str))
}

/// Whether DPDK, started with these arguments, takes its memory from hugepages: it does where an argument says so, and
/// for devices of a bus. Virtual devices do without.
pub fn wants_hugepages<S: AsRef<str>>(given: &[S]) -> bool {
    !has_any(given, &[NO_HUGE]) && (has_any(given, MEMORY) || has_any(given, HARDWARE))
}

/// The devices of a bus that arguments allow, each with its devargs: `-a 0000:3b:00.0,mprq_en=1`.
pub fn allowed<S: AsRef<str>>(given: &[S]) -> Vec<&str> {
    let mut found = Vec::new();
    let mut args = given.iter().map(AsRef::as_ref);
    while let Some(arg) = args.next() {
        let value = match arg {
            "-a" | "--allow" => args.next(),
            _ => arg.strip_prefix("--allow=").or_else(|| arg.strip_prefix("-a")),
        };
        found.extend(value);
    }
    found
}

/// Whether arguments say which lcores there are, or where they run.
pub fn places_lcores<S: AsRef<str>>(given: &[S]) -> bool {
    has_any(given, LCORES)
}

/// Whether arguments choose among the devices of a bus by leaving some, or all, out.
pub fn blocks<S: AsRef<str>>(given: &[S]) -> bool {
    has_any(given, &["--block", "-b", NO_PCI])
}

fn has_any<S: AsRef<str>>(given: &[S], options: &[&str]) -> bool {
    given.iter().any(|arg| options.iter().any(|option| is(arg.as_ref(), option)))
}

/// `--opt`, `--opt=value`, `-o`, `-ovalue`.
fn is(arg: &str, option: &str) -> bool {
    match arg.strip_prefix(option) {
        Some("") => true,
        Some(rest) => !option.starts_with("--") || rest.starts_with('='),
        None => false,
    }
}

/// Lcore 0 may run anywhere, and each core has a worker lcore: `0@(0,1),1@0,2@1`.
fn floating_main_and_workers(cpus: &[usize]) -> String {
    let all = cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let workers = cpus.iter().take(WORKERS_MAX).zip(1..).map(|(cpu, lcore)| format!(",{lcore}@{cpu}"));
    format!("0@({all}){}", workers.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(given: &[&str]) -> Args {
        Args::complete(&given.iter().map(|s| s.to_string()).collect::<Vec<_>>(), Some(96), 7, &[0, 3])
    }

    #[test]
    fn nothing_given_needs_nothing_of_the_machine() {
        let args = complete(&[]);
        assert_eq!(
            args.argv,
            [
                "weir",
                "--no-huge",
                "-m",
                "96",
                "--no-pci",
                "--file-prefix=weir-7",
                "--lcores=0@(0,3),1@0,2@3",
                "--log-level=warning",
                "--log-level=lib.telemetry:error"
            ]
        );
        assert_eq!(args.prefix.as_deref(), Some("weir-7"));
    }

    #[test]
    fn what_is_given_is_not_overruled() {
        let given = [
            "--in-memory",
            "-m",
            "64",
            "-a",
            "0000:03:00.0",
            "-l1-3",
            "--file-prefix=x",
            "--log-level=pmd:debug",
        ];
        let args = complete(&given);
        assert_eq!(args.argv[1..], given);
        assert_eq!(args.prefix.as_deref(), Some("x"));
        assert!(args.has("--in-memory"));
        assert!(!args.has("--no-huge"));
    }

    #[test]
    fn a_folder_is_that_of_the_process_unless_it_runs_in_that_of_another() {
        for (given, prefix) in [
            (&["--file-prefix", "a"][..], Some("a")),
            (&["--file-prefix=a", "--file-prefix=b"], Some("b")),
            (&["--file-prefix=a", "--proc-type=primary"], Some("a")),
            (&["--proc-type", "primary"], Some("rte")),
            (&["--file-prefix=a", "--proc-type=secondary"], None),
            (&["--file-prefix=a", "--proc-type", "auto"], None),
        ] {
            assert_eq!(complete(given).prefix.as_deref(), prefix, "{given:?}");
            assert_eq!(Args::exact(&complete(given).argv[1..]).prefix.as_deref(), prefix, "{given:?}");
        }
    }

    #[test]
    fn devices_of_a_bus_get_hugepages() {
        for given in [
            &["-a", "0000:3b:00.0"][..],
            &["-a0000:3b:00.0"],
            &["--allow=0000:3b:00.0"],
            &["-b", "0000:3b:00.0"],
            &["--in-memory"],
            &["--no-pci", "--socket-mem=512"],
        ] {
            assert!(wants_hugepages(given), "{given:?}");
            let args = complete(given);
            assert!(!args.has("--no-huge") && !args.has("-m"), "{args:?}");
        }
        for given in [&["--vdev=net_null0"][..], &["-m", "64"], &["-a", "0000:3b:00.0", "--no-huge"]] {
            assert!(!wants_hugepages(given), "{given:?}");
            let args = complete(given);
            let count = |option: &str| args.argv.iter().filter(|arg| *arg == option).count();
            assert_eq!((count("--no-huge"), count("-m")), (1, 1), "{args:?}");
        }
    }

    #[test]
    fn allowed_devices_are_read_in_every_form() {
        let given =
            ["-l", "0-1", "-a", "0000:03:00.0,x=1", "-a04:00.0", "--allow", "05:00.0", "--allow=06:00.0"];
        assert_eq!(allowed(&given), ["0000:03:00.0,x=1", "04:00.0", "05:00.0", "06:00.0"]);
        assert!(!blocks(&given) && blocks(&["-b", "03:00.0"]) && blocks(&["--no-pci"]));
    }

    #[test]
    fn an_option_is_not_taken_for_a_longer_one() {
        assert!(is("--lcores=1", "--lcores"));
        assert!(!is("--log-levels", "--log-level"));
        assert!(is("-l1", "-l"));
        assert!(!is("--legacy-mem", "-l"));
    }

    #[test]
    fn exact_adds_the_program_name_only() {
        assert_eq!(Args::exact(&["--no-huge".into()]).argv, ["weir", "--no-huge"]);
    }
}
