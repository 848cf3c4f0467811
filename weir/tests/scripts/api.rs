//! The management API as others use it: its OpenAPI document is one, a client that was generated from it works with a running
//! switch, and schemathesis finds nothing. `make test-api` gets the programs from PyPI.

use crate::running::ask;
use crate::support::program::{Running, WEIR, floating};
use crate::{has, repository, said};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const TOKENS: [(&str, &str); 3] = [
    ("token_file", "reader-reader-reader"),
    ("operate_token_file", "operate-operate-operate"),
    ("admin_token_file", "admin-admin-admin-admin"),
];

/// A switch with a port that always receives, one that never does, and an engine.
const CONFIG: &str = "[switch]\nname = \"api\"\n[qos]\npreset = \"roce-lossless\"\n[buffer]\nsize = \"8MiB\"\n\
    cell_bytes = 256\nframes = 32768\n[port_defaults]\nrate = \"1G\"\nmtu = 1600\n\
    [[port]]\nname = \"p0\"\ndevice = \"net_null0\"\n[[port]]\nname = \"p1\"\ndevice = \"net_ring0\"\n\
    [[port]]\nname = \"inc0\"\ndevice = \"inc\"\n\
    inc = { mac = \"02:00:00:00:01:00\", ip = \"10.0.0.200\", quota = \"1MiB\" }\n";

/// A running switch.
struct Switch {
    _program: Running,
    url: String,
    config: PathBuf,
    folder: TempDir,
}

impl Switch {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let prefix = format!("--file-prefix=weir-api-{}", std::process::id());
        let mut text = format!(
            "[eal]\nargs = [\"--no-huge\", \"--no-pci\", \"--no-telemetry\", \"-m\", \"256\", {prefix:?}, \
             {:?}]\n{CONFIG}[mgmt]\nlisten = \"127.0.0.1:0\"\nsocket = {:?}\n",
            floating(),
            path("s.sock")
        );
        for (key, token) in TOKENS {
            std::fs::write(path(key), token).unwrap();
            std::fs::set_permissions(path(key), Permissions::from_mode(0o600)).unwrap();
            text += &format!("{key} = {:?}\n", path(key));
        }
        let config = path("switch.toml");
        std::fs::write(&config, text).unwrap();
        let mut program = Running::start(Command::new(WEIR).arg("run").arg(&config));
        let said = program.line("management on ");
        let url = said.split(' ').find(|word| word.starts_with("http://")).unwrap().to_owned();
        Self { _program: program, url, config, folder }
    }

    fn get(&self, path: &str) -> String {
        let head = format!(
            "GET {path} HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n",
            TOKENS[2].1
        );
        let answer = ask(self.url.trim_start_matches("http://"), head.as_bytes());
        answer.split_once("\r\n\r\n").expect("a head").1.to_owned()
    }
}

/// A program of the environment that `make test-api` makes.
fn program(name: &str) -> Option<PathBuf> {
    let path = repository().join("target/api/bin").join(name);
    if !path.exists() {
        eprintln!("skipped: the API as others see it: no {name}: make test-api");
        return None;
    }
    Some(path)
}

/// Operations a document has.
fn operations(document: &str) -> usize {
    let document: serde_json::Value = serde_json::from_str(document).unwrap();
    document["paths"].as_object().unwrap().values().map(|item| item.as_object().unwrap().len()).sum()
}

#[test]
fn others_can_use_the_management_api() {
    let programs = ["openapi-spec-validator", "openapi-python-client", "schemathesis", "python"].map(program);
    let [Some(validator), Some(generator), Some(schemathesis), Some(python)] = programs else { return };
    if !has("timeout") {
        return;
    }
    let files = repository().join("contrib/openapi");
    let switch = Switch::start();
    let folder = switch.folder.path();
    let document = folder.join("openapi.json");
    let text = switch.get("/v1/openapi.json");
    std::fs::write(&document, &text).unwrap();
    said(Command::new(validator).arg(&document));

    let generated = folder.join("client");
    let mut generate = Command::new(generator);
    generate.args(["generate", "--meta", "none", "--fail-on-warning", "--path"]).arg(&document);
    generate.arg("--config").arg(files.join("client.yaml"));
    said(generate.arg("--output-path").arg(generated.join("weir_management_client")));
    let mut work = Command::new(python);
    work.arg(files.join("check_client.py")).args([&switch.url, TOKENS[2].1]).arg(&switch.config);
    work.arg(repository().join("configs/inc-job.json"));
    work.env("PYTHONPATH", &generated).env("PYTHONDONTWRITEBYTECODE", "1");
    assert_eq!(said(&mut work).trim(), "everything as the types say");

    let found = try_everything(&schemathesis, &files, &switch, &document);
    let all = operations(&text);
    assert!(all > 35 && found.contains(&format!("Tested: {all}")), "{all}: {found}");
    assert!(switch.get("/readyz").ends_with("ok\n"), "{}", switch.get("/readyz?verbose"));
}

/// What schemathesis says. It ends with an error, and so does this, if it finds anything.
fn try_everything(schemathesis: &Path, files: &Path, switch: &Switch, document: &Path) -> String {
    let mut run = Command::new("timeout");
    // What takes a minute alone may take longer on a machine that is busy.
    run.arg("600").arg(schemathesis).arg("--config-file").arg(files.join("schemathesis.toml"));
    run.arg("run").arg(document).args(["--url", &switch.url, "--checks", "all", "--seed", "1"]);
    run.args(["--header", &format!("Authorization: Bearer {}", TOKENS[2].1)]);
    run.args([
        "--max-examples",
        "10",
        "--max-time",
        "60",
        "--request-timeout",
        "60",
        "--continue-on-failure",
    ]);
    run.current_dir(switch.folder.path()).env("NO_COLOR", "1");
    run.env("SCHEMATHESIS_HOOKS", "hooks").env("PYTHONPATH", files).env("PYTHONDONTWRITEBYTECODE", "1");
    said(&mut run)
}
