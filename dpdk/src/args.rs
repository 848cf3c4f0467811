//! EAL arguments: what is added so that DPDK starts without root, hugepages and a NIC.

/// The whole argument vector, program name first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Args {
    pub argv: Vec<String>,
    /// The run-time folder's name, if it was chosen here and belongs to this process alone.
    pub own_prefix: Option<String>,
}

/// DPDK's limit is on ids, which begin with the main lcore.
const WORKERS_MAX: usize = weir_dpdk_sys::weir_limit::WEIR_MAX_LCORE as usize - 1;

/// Options that choose where memory comes from, or what kind of process this is.
const MEMORY: &[&str] = &[
    "--no-huge",
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
const DEVICES: &[&str] = &["--no-pci", "--allow", "--block", "-a", "-b"];
const LCORES: &[&str] = &["--lcores", "--main-lcore", "--remap-lcore-ids", "-l", "-c", "-s", "-S", "-R"];
const PREFIX: &[&str] = &["--file-prefix", "--proc-type"];

impl Args {
    /// `given` with a default for each matter it does not settle.
    pub(crate) fn complete(given: &[String], pid: u32, cpus: &[usize]) -> Self {
        let has = |options: &[&str]| given.iter().any(|arg| options.iter().any(|option| is(arg, option)));
        let mut argv = vec!["weir".to_owned()];
        let mut own_prefix = None;
        if !has(MEMORY) {
            argv.push("--no-huge".into());
        }
        if !has(DEVICES) {
            argv.push("--no-pci".into());
        }
        if !has(PREFIX) {
            let prefix = format!("weir-{pid}");
            argv.push(format!("--file-prefix={prefix}"));
            own_prefix = Some(prefix);
        }
        if !has(LCORES) && !cpus.is_empty() {
            argv.push(format!("--lcores={}", floating_main_and_workers(cpus)));
        }
        if !has(&["--log-level"]) {
            argv.push("--log-level=warning".into());
            // Warns at each start that nobody uses the socket of DPDK 18.
            argv.push("--log-level=lib.telemetry:error".into());
        }
        argv.extend_from_slice(given);
        Self { argv, own_prefix }
    }

    /// `given` and nothing else.
    pub(crate) fn exact(given: &[String]) -> Self {
        let argv = std::iter::once("weir".to_owned()).chain(given.iter().cloned()).collect();
        Self { argv, own_prefix: None }
    }

    pub(crate) fn has(&self, option: &str) -> bool {
        self.argv.iter().any(|arg| is(arg, option))
    }
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
        Args::complete(&given.iter().map(|s| s.to_string()).collect::<Vec<_>>(), 7, &[0, 3])
    }

    #[test]
    fn nothing_given_needs_nothing_of_the_machine() {
        let args = complete(&[]);
        assert_eq!(
            args.argv,
            [
                "weir",
                "--no-huge",
                "--no-pci",
                "--file-prefix=weir-7",
                "--lcores=0@(0,3),1@0,2@3",
                "--log-level=warning",
                "--log-level=lib.telemetry:error"
            ]
        );
        assert_eq!(args.own_prefix.as_deref(), Some("weir-7"));
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
        assert_eq!(args.own_prefix, None);
        assert!(args.has("--in-memory"));
        assert!(!args.has("--no-huge"));
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
