//! The page in headless Chromium: what it shows is what `/v1` says.

use crate::running::Lab;
use crate::support::{run, tool, wait_for};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use weir_mgmt::page::{Saved, report};

/// Chromium, or `None` and why the test ends here.
pub fn chromium() -> Option<PathBuf> {
    let found = tool(&["chromium", "chromium-browser", "google-chrome"]);
    if found.is_none() {
        eprintln!("skipped: no chromium is installed (scripts/need test)");
    }
    found
}

/// The narrowest window that Chromium makes without a head.
const NARROWEST: u32 = 500;

/// A page, and the window that shows it in this size: what is narrower than windows can be is a frame in one.
pub fn in_window(html: &str, (width, height): (u32, u32)) -> (String, (u32, u32)) {
    if width >= NARROWEST {
        return (html.to_owned(), (width, height));
    }
    let inside = html.replace('&', "&amp;").replace('"', "&quot;");
    let frame =
        format!("<iframe style=\"border: 0; width: {width}px; height: {height}px\" srcdoc=\"{inside}\">");
    (format!("<!doctype html><html><body style=\"margin: 0\">{frame}</iframe></body>"), (NARROWEST, height))
}

/// The page as Chromium has built it, or `None` where there is no Chromium.
fn dom(url: &str) -> Option<String> {
    let chromium = chromium()?;
    let profile = tempfile::tempdir().unwrap();
    let text = run(Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(["--window-size=1280,900", "--virtual-time-budget=4000", "--dump-dom", url]));
    assert!(text.contains("<html"), "{url}: {text}");
    Some(text)
}

fn plain(html: &str) -> String {
    html.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

/// What the page shows of `/v1`: path of the value, the value, and the text a reader sees.
fn shown(dom: &str) -> BTreeMap<String, (String, String)> {
    let parts = dom.split("data-of=\"").skip(1).map(|part| {
        let (of, rest) = part.split_once('"').unwrap();
        let value = rest.split_once("data-value=\"").unwrap().1.split_once('"').unwrap().0;
        let text = rest.split_once('>').unwrap().1.split_once('<').unwrap().0;
        (plain(of), (plain(value), plain(text)))
    });
    parts.collect()
}

fn number(value: &Value) -> Option<u128> {
    value.as_u64().map(u128::from).or_else(|| value.as_str()?.parse().ok())
}

/// The value of `/v1` a path of [`shown`] names.
fn value(snapshot: &Value, of: &str) -> Option<u128> {
    let mut path = of.splitn(2, '/');
    let table = snapshot[path.next()?].as_array()?;
    let rest = path.next()?;
    let row = |keys: &[(&str, &str)]| {
        table.iter().find(|row| {
            keys.iter()
                .all(|(k, v)| row[*k].as_str().map_or_else(|| row[*k].to_string(), str::to_owned) == *v)
        })
    };
    let parts: Vec<&str> = rest.rsplitn(2, '/').collect();
    let (key, which) = (parts[0], parts.get(1).copied());
    match of.split('/').next()? {
        "switch" => number(&table.first()?[rest]),
        "ports" => {
            let row = row(&[("port", which?)])?;
            key.split('+').map(|key| number(&row[key])).sum()
        }
        "lcores" => number(&row(&[("lcore", which?)])?[key]),
        "latency" => {
            let (port, queue) = which?.rsplit_once('/')?;
            number(&row(&[("port", port), ("queue", queue)])?[key])
        }
        "drops" => number(&row(&[("port", which?), ("reason", key)])?["frames"]),
        _ => None,
    }
}

#[test]
fn the_page_of_a_running_lab_shows_what_v1_says() {
    let lab = Lab::start();
    // Two steps of history, so that there is something to draw.
    wait_for("history", || {
        lab.json("/v1/history")["unix_ms"].as_array().filter(|steps| steps.len() > 2).map(|_| ())
    });
    let before = lab.json("/v1/snapshot");
    let Some(dom) = dom(&format!("http://{}/", lab.address)) else { return };
    let after = lab.json("/v1/snapshot");
    let shown = shown(&dom);
    for of in
        ["switch/lossless_drops", "switch/conservation_error", "ports/p0/tx_packets", "ports/p3/rx_packets"]
    {
        assert!(shown.contains_key(of), "{of} of {:?}\n{dom}", shown.keys());
    }
    for (of, (text, _)) in &shown {
        // Counters only grow, so the page's instant lies between the two.
        if of.ends_with("/held") {
            continue;
        }
        let page: u128 = text.parse().unwrap_or_else(|e| panic!("{of}: {text}: {e}"));
        let bounds = (value(&before, of).unwrap_or(0), value(&after, of).unwrap_or_else(|| panic!("{of}")));
        assert!((bounds.0..=bounds.1).contains(&page), "{of}: {page} is not within {bounds:?}");
    }
    assert!(!dom.contains("no answer"), "{dom}");
    let badge = dom.split("id=\"health\" class=\"badge ").nth(1).unwrap().split('<').next().unwrap();
    // A busy machine takes cores away, and the badge says so.
    assert!(badge.starts_with("good\"") == badge.ends_with(">healthy"), "{badge}");
    assert_eq!(dom.matches("class=\"uplot").count(), 2, "two charts");
    assert!(dom.contains("LLDP is not spoken: [lldp] enable"), "an empty panel says what would fill it");
}

/// A script that says how far each element with rows sticks out to the right of where it is shown.
const MEASURE: &str = "<script>addEventListener('load', () => {
    const out = [...document.querySelectorAll('.scroll, body')].filter((e) => e.scrollWidth > e.clientWidth + 1)
        .map((e) => (e.querySelector('table, li') || e).id + ' ' + (e.scrollWidth - e.clientWidth));
    top.document.documentElement.dataset.cut = out.join(', ') || 'nothing';
});</script></body>";

/// A report of a lab, and what is in it.
fn saved_by(lab: &Lab) -> Value {
    let file = lab.path("report.html");
    lab.good(&["report", "--out", file.to_str().unwrap()]);
    let html = std::fs::read_to_string(&file).unwrap();
    let data = html.split("type=\"application/json\">").nth(1).unwrap().split("</script>").next().unwrap();
    serde_json::from_str(data).unwrap()
}

/// At the size of a small notebook, and of a telephone, no column is cut and nothing is scrolled sideways, with long names, losses,
/// flows and neighbours in their panels.
#[test]
fn no_column_is_cut_at_1280_and_390() {
    let lab = Lab::start();
    let saved = saved_by(&lab);
    let mut snapshot = saved["snapshot"].clone();
    let reasons = ["ingress.unknown_unicast_limit", "ingress.headroom_exhausted", "watchdog.storm"];
    let drop = |reason: &&str| {
        json!({ "port": "Ethernet112", "reason": reason, "frames": 1_234_567, "pps": 98_765.4, "lossless": true,
                "lossless_frames": 1_234_567, "last_unix_ms": 1, "remedy": "see whether PFC is sent and obeyed" })
    };
    snapshot["drops"] = reasons.iter().map(drop).collect();
    let flow = |cause: &&str| {
        json!({ "port": "Ethernet112", "cause": cause, "priority": 3, "from": "Ethernet4", "share": 0.713, "share_at_most": 0.829,
                "flow": "fd00:1234:5678::10:7 -> fd00:1234:5678::10:9 UDP 49152 -> 4791 QP 0x1a2b3c", "count": 12, "unit": "frames" })
    };
    let flows: Vec<Value> = ["drop", "pause", "mark", "depth"].iter().map(flow).collect();
    let ports: Vec<Value> = (0..3)
        .map(|n| {
            let wrong = json!({ "pfc": [4], "ets": [1, 2, 3], "frame_size": n == 0 });
            let fits = json!({ "pfc": [], "ets": [], "frame_size": false });
            json!({ "port": format!("Ethernet{n}"), "sent": null, "neighbours": [{
                "system_name": "host7.rack12.example", "chassis": "02:00:00:00:ff:07", "port_id": "enp59s0f0np0",
                "pfc": { "priorities": [3, 4] }, "ttl_left_seconds": 121, "differences": if n < 2 { wrong } else { fits } }] })
        })
        .collect();
    let page = Saved {
        snapshot,
        history: saved["history"].clone(),
        events: saved["events"].as_array().unwrap().clone(),
        flows: json!({ "recorded": true, "flows": flows }),
        lldp: json!({ "enabled": true, "ports": ports }),
    };
    let file = lab.path("wide.html");
    std::fs::write(&file, report(&page).replace("</body>", MEASURE)).unwrap();
    // To be looked at.
    if let Some(copy) = std::env::var_os("WEIR_PAGE") {
        std::fs::copy(&file, copy).unwrap();
    }
    let Some(dom) = dom(&format!("file://{}", file.display())) else { return };
    cuts_nothing(&dom);
    let narrow = lab.path("narrow.html");
    let html = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&narrow, in_window(&html, (390, 3300)).0).unwrap();
    cuts_nothing(&self::dom(&format!("file://{}", narrow.display())).unwrap());
    for shown in ["QP 0x1a2b3c", "host7.rack12.example", "PFC 4; ETS 1,2,3; frame size", "2 of 3 do not fit"]
    {
        assert!(dom.contains(shown), "{shown}: {dom}");
    }
}

/// What [`MEASURE`] has found.
fn cuts_nothing(dom: &str) {
    let found = dom.split("data-cut=\"").nth(1).and_then(|rest| rest.split('"').next());
    assert_eq!(found, Some("nothing"));
}

#[test]
fn the_report_of_a_simulation_that_was_stopped_says_so() {
    let place = tempfile::tempdir().unwrap();
    let fabric = "name = \"t\"\nstop_time = \"1ms\"\n[topology]\nkind = \"star\"\nhosts = 3\n\
                  [[workload]]\nkind = \"incast\"\nto = \"h2\"\nbytes = 100000\n";
    let file = place.path().join("t.toml");
    std::fs::write(&file, fabric).unwrap();
    run(Command::new(env!("CARGO_BIN_EXE_weir")).arg("sim").arg(&file).arg("--out").arg(place.path()));
    let page = place.path().join("report.html");
    let html = std::fs::read_to_string(&page).unwrap();
    let early = |sentence: &str| {
        std::fs::write(&page, html.replace("\"stopped\":null", &format!("\"stopped\":{sentence}"))).unwrap();
        dom(&format!("file://{}", page.display()))
    };
    let Some(whole) = early("null") else { return };
    assert!(whole.contains(">nothing lost<") && !whole.contains("<li>Stopped"), "{whole}");
    let stopped = early("\"stopped at 9 ns\"").unwrap();
    assert!(
        stopped.contains("<li>Stopped at 9 ns.</li>") && stopped.contains(">stopped before its end<"),
        "{stopped}"
    );
}

#[test]
fn a_report_opens_without_a_switch_and_shows_the_very_numbers() {
    let lab = Lab::start();
    let file = lab.path("report.html");
    wait_for("history", || {
        lab.json("/v1/history")["latency"].as_array().filter(|parts| !parts.is_empty()).map(|_| ())
    });
    lab.good(&["report", "--out", file.to_str().unwrap()]);
    let html = std::fs::read_to_string(&file).unwrap();
    let data = html.split("type=\"application/json\">").nth(1).unwrap().split("</script>").next().unwrap();
    let mut saved: Value = serde_json::from_str(data).unwrap();
    // The switch has gone; its folder stays for the report.
    let Lab { program, folder: _folder, socket, _turn, .. } = lab;
    program.stop(Signal::SIGINT);
    let Some(dom_of_file) = dom(&format!("file://{}", file.display())) else { return };
    all_equal(&saved["snapshot"], &dom_of_file);

    // Beyond 2^53 every digit counts, and no name is markup.
    let name = "<b>p\"0</b>";
    let big = "18446744073709551615";
    saved["snapshot"]["ports"][0]["rx_packets"] = Value::from(big);
    let text =
        serde_json::to_string(&saved["snapshot"]).unwrap().replace("\"p0\"", &Value::from(name).to_string());
    let snapshot: Value = serde_json::from_str(&text).unwrap();
    let strange = Saved {
        snapshot,
        history: saved["history"].clone(),
        events: Vec::new(),
        flows: Value::Null,
        lldp: Value::Null,
    };
    std::fs::write(&file, report(&strange)).unwrap();
    let Some(dom) = dom(&format!("file://{}", file.display())) else { return };
    all_equal(&strange.snapshot, &dom);
    let (value, text) = &shown(&dom)[&format!("ports/{name}/rx_packets")];
    assert_eq!((value.as_str(), text.replace('\u{202f}', "").as_str()), (big, big));
    assert!(dom.contains("<td class=\"text\">&lt;b&gt;p\"0&lt;/b&gt;</td>"), "{dom}");
    assert!(!socket.exists());
    parts_of_latency(&saved, &file);
}

/// The latency panel with another part chosen.
fn parts_of_latency(saved: &Value, file: &std::path::Path) {
    let page = Saved {
        snapshot: saved["snapshot"].clone(),
        history: saved["history"].clone(),
        events: Vec::new(),
        flows: Value::Null,
        lldp: Value::Null,
    };
    for part in ["queueing", "pause"] {
        let option = format!("<option value=\"{part}\"");
        let html = report(&page).replace(&option, &format!("{option} selected"));
        std::fs::write(file, html).unwrap();
        let Some(dom) = dom(&format!("file://{}", file.display())) else { return };
        all_equal(&page.snapshot, &dom);
        let longest: Vec<String> = shown(&dom).into_keys().filter(|of| of.starts_with("latency/")).collect();
        assert!(
            !longest.is_empty() && longest.iter().all(|of| of.ends_with(&format!("/{part}_max_ns"))),
            "{longest:?}"
        );
        let legend = dom.split("id=\"latency-legend\">").nth(1).unwrap().split("</h2>").next().unwrap();
        assert!(legend.contains("p99 ") && !legend.contains("p99 –"), "{part}: {legend}");
    }
}

fn all_equal(snapshot: &Value, dom: &str) {
    let shown = shown(dom);
    assert!(shown.len() > 15, "{shown:?}");
    for (of, (text, _)) in &shown {
        assert_eq!(value(snapshot, of).map(|v| v.to_string()).as_ref(), Some(text), "{of}");
    }
}

#[test]
fn frames_that_were_sent_again_are_no_failure_on_the_page_of_a_simulation() {
    let place = tempfile::tempdir().unwrap();
    let fabric = "name = \"t\"\nstop_time = \"50ms\"\n[topology]\nkind = \"star\"\nhosts = 9\n[host]\ntimeout = \"100us\"\n\
                  [switch.config.buffer]\nsize = \"1MiB\"\n[switch.config.port_defaults]\nmtu = 1600\n\
                  [[workload]]\nkind = \"incast\"\nto = \"h8\"\nbytes = \"200KB\"\npriority = 0\ndscp = 0\n";
    let file = place.path().join("t.toml");
    std::fs::write(&file, fabric).unwrap();
    run(Command::new(env!("CARGO_BIN_EXE_weir")).arg("sim").arg(&file).arg("--out").arg(place.path()));
    let page = place.path().join("report.html");
    let Some(good) = dom(&format!("file://{}", page.display())) else { return };
    // Its class and its text.
    let badge = |dom: &str| {
        let (before, after) = dom.split_once("\" id=\"verdict\">").unwrap();
        (before.rsplit('"').next().unwrap().to_owned(), after.split('<').next().unwrap().to_owned())
    };
    let (class, text) = badge(&good);
    assert!(class == "badge" && text.ends_with(" frames lost, recovered"), "{class}: {text}");
    let html = std::fs::read_to_string(&page).unwrap();
    std::fs::write(&page, html.replace("\"findings\":[]", "\"findings\":[\"it failed\"]")).unwrap();
    let (class, text) = badge(&dom(&format!("file://{}", page.display())).unwrap());
    assert!(class == "badge bad" && text.ends_with(" frames dropped"), "{class}: {text}");
}
