//! The page: files it is made of, and the same page with its data inside, as a file of its own.

use serde_json::Value;

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// Where it is served.
    pub path: &'static str,
    /// Its content type.
    pub kind: &'static str,
    /// What is in it.
    pub text: &'static str,
}

const JS: &str = "text/javascript; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";

/// All of them; the first is the page itself.
pub const FILES: &[File] = &[
    File { path: "/", kind: "text/html; charset=utf-8", text: include_str!("../assets/index.html") },
    File { path: "/page.css", kind: CSS, text: include_str!("../assets/page.css") },
    File { path: "/page.js", kind: JS, text: include_str!("../assets/page.js") },
    File { path: "/draw.js", kind: JS, text: include_str!("../assets/draw.js") },
    File { path: "/uplot.css", kind: CSS, text: include_str!("../assets/uplot/uPlot.min.css") },
    File { path: "/uplot.js", kind: JS, text: include_str!("../assets/uplot/uPlot.iife.min.js") },
    File {
        path: "/uplot.txt",
        kind: "text/plain; charset=utf-8",
        text: include_str!("../assets/uplot/LICENSE"),
    },
];

/// What a report shows: the answers to `/v1/snapshot`, `/v1/history`, `/v1/events`, `/v1/flows` and `/v1/lldp`.
#[derive(Clone, Debug)]
pub struct Saved {
    /// Every table.
    pub snapshot: Value,
    /// The last minute.
    pub history: Value,
    /// Events, oldest first.
    pub events: Vec<Value>,
    /// The flows behind them.
    pub flows: Value,
    /// Neighbours.
    pub lldp: Value,
}

/// The page with what was saved: one file, which opens without a server and fetches nothing.
pub fn report(saved: &Saved) -> String {
    let mut html = FILES[0].text.to_owned();
    for file in &FILES[1..] {
        for (tag, whole) in [
            (
                format!("<link rel=\"stylesheet\" href=\"{}\">", file.path),
                format!("<style>\n{}</style>", file.text),
            ),
            (format!("<script src=\"{}\" defer></script>", file.path), String::new()),
        ] {
            html = html.replace(&tag, &whole);
        }
    }
    let data = serde_json::json!({
        "snapshot": saved.snapshot, "history": saved.history, "events": saved.events, "flows": saved.flows,
        "lldp": saved.lldp,
    });
    // No text in the data can end the element it stands in.
    let data = data.to_string().replace('<', "\\u003c");
    let mut tail = format!("<script id=\"saved\" type=\"application/json\">{data}</script>\n");
    for name in ["/uplot.js", "/draw.js", "/page.js"] {
        if let Some(file) = FILES.iter().find(|file| file.path == name) {
            tail.push_str(&format!("<script>\n{}</script>\n", file.text));
        }
    }
    html.replace("</body>", &format!("{tail}</body>"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_report_stands_alone_and_its_data_stay_data() {
        let name = "</script><script>alert(1)</script>";
        let (snapshot, history, events) = (json!({ "name": name }), json!({}), vec![json!(1)]);
        let saved = Saved { snapshot, history, events, flows: json!({ "flows": [] }), lldp: Value::Null };
        let html = report(&saved);
        for outside in ["src=\"", "href=\"/", "@import", "url(http"] {
            assert!(!html.contains(outside), "{outside}");
        }
        assert!(!html.contains(name));
        let data =
            html.split("type=\"application/json\">").nth(1).unwrap().split("</script>").next().unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!((&data["snapshot"]["name"], &data["events"]), (&json!(name), &json!([1])));
        assert!(html.contains("uPlot") && html.trim_end().ends_with("</html>"));
    }

    #[test]
    fn the_page_names_only_files_that_are_there() {
        for part in FILES[0].text.split(['"']).filter(|part| part.starts_with('/') && part.contains('.')) {
            assert!(part.starts_with("/v1/") || FILES.iter().any(|file| file.path == part), "{part}");
        }
    }
}
