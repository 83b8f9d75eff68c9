//! Pages that a browser shows without a network: one file each, with the data of an analysis and what draws it.
//!
//! ```text
//! Page { title, views } ─▶ HTML: style.css, the data as JSON, base.js and a file of each kind of view
//! ```
//! | view | shows | file |
//! |---|---|---|
//! | [`View::Numbers`] | a few numbers | `base.js` |
//! | [`View::Table`] | rows, to be sorted | `table.js` |
//! | [`View::Histogram`] | how many values are so large | `histogram.js` |
//! | [`View::Sunburst`] | a tree of shares, as rings | `sunburst.js` |
//! | [`View::Tracks`] | what was so from when to when, one row for each of several things | `tracks.js` |
//!
//! Pictures zoom, tell numbers under the pointer and can be used by keys (`?` lists them); tables are sorted by a
//! click. A search (`/`) is through tables, sunbursts and tracks. Colours follow the reader's choice of dark or
//! light (`d` changes it). A page may load nothing: its content security policy says so.
//!
//! The data is in the element `data`, as JSON: what tests read, and programs may.

use serde::Serialize;
use serde_json::Value;

const STYLE: &str = include_str!("style.css");
const SCRIPTS: [&str; 5] = [
    include_str!("base.js"),
    include_str!("table.js"),
    include_str!("histogram.js"),
    include_str!("sunburst.js"),
    include_str!("tracks.js"),
];

/// A page.
#[derive(Clone, Debug, Serialize)]
pub struct Page {
    /// What it is called.
    pub title: String,
    /// The capture or recording that the page is about.
    pub about: String,
    /// From above to below.
    pub views: Vec<View>,
}

/// A picture, or a table. The names of members are those of the JSON.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum View {
    /// A few numbers.
    Numbers {
        /// What is above.
        title: String,
        /// What each is, and the number as text.
        rows: Vec<(String, String)>,
    },
    /// Rows.
    Table {
        /// What is above.
        title: String,
        /// What is in each column.
        columns: Vec<String>,
        /// Texts and numbers; nothing where a number is absent.
        rows: Vec<Vec<Value>>,
    },
    /// How many values are so large.
    Histogram {
        /// What is above.
        title: String,
        /// What values are: `ns`, or a word.
        unit: String,
        /// Several, drawn beside one another.
        series: Vec<Series>,
    },
    /// A tree of shares.
    Sunburst {
        /// What is above.
        title: String,
        /// What shares are of: `ns`, or a word.
        unit: String,
        /// The tree.
        root: Slice,
    },
    /// States with a beginning and an end, in a row for each subject.
    Tracks {
        /// What is above.
        title: String,
        /// What times are: `ns`, or a word.
        unit: String,
        /// Rows.
        tracks: Vec<Track>,
    },
}

/// Values of a histogram.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// The name of the series.
    pub name: String,
    /// First and last value of a bucket, and how many are there.
    pub buckets: Vec<(u64, u64, u64)>,
}

/// A part of a sunburst.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Slice {
    /// The name of the part.
    pub name: String,
    /// Its own weight, without that of its parts.
    pub own: u64,
    /// More of it, for who points at it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// It is drawn in the colours of the kernel.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub kernel: bool,
    /// How it differs from another tree. Where any part does, all others are pale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// Its parts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Slice>,
}

/// What a part is, beside that of another tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The other tree has none.
    Alone,
    /// It weighs more by itself, or was there more often.
    More,
    /// It weighs less.
    Less,
}

/// A row of what was so from when to when.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Track {
    /// The name of the subject.
    pub name: String,
    /// How far it is within others.
    pub level: u32,
    /// From when, to when, the number of what it was in `kinds`, and more of it.
    pub intervals: Vec<(u64, u64, u32, String)>,
    /// What there is, by number; each has its colour.
    pub kinds: Vec<String>,
}

impl Page {
    /// The page as a file.
    ///
    /// # Cost
    /// All of it is in memory: about twice the size of the data.
    #[must_use]
    pub fn html(&self) -> String {
        // A text in it cannot end the element, nor begin another one.
        let data = serde_json::to_string(self).unwrap_or_default().replace('<', "\\u003c");
        let title = self.title.replace('&', "&amp;").replace('<', "&lt;");
        let scripts = SCRIPTS.concat();
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
             script-src 'unsafe-inline'\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
             <style>\n{STYLE}</style>\n</head>\n<body>\n\
             <script type=\"application/json\" id=\"data\">{data}</script>\n<script>\n{scripts}show();\n</script>\n\
             </body>\n</html>\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_leave_the_data() {
        let name = "</script><script>alert(1)</script>".to_owned();
        let root = Slice { name: name.clone(), own: 1, ..Slice::default() };
        let view = View::Sunburst { title: "calls".to_owned(), unit: "instructions".to_owned(), root };
        let html = Page { title: "<a> & b".to_owned(), about: String::new(), views: vec![view] }.html();
        assert_eq!(html.matches("<script").count(), 2);
        assert!(html.contains("<title>&lt;a> &amp; b</title>"));
        let data = html.split_once("id=\"data\">").and_then(|(_, rest)| rest.split_once("</script>"));
        let data: Value = serde_json::from_str(data.expect("the data").0).expect("JSON");
        assert_eq!(data["views"][0]["root"]["name"], Value::from(name));
        assert_eq!((&data["views"][0]["type"], &data["title"]), (&"sunburst".into(), &"<a> & b".into()));
    }

    #[test]
    fn pages_load_nothing() {
        let html = Page { title: String::new(), about: String::new(), views: Vec::new() }.html();
        for way in ["http://", "https://", "url(", "@import", "fetch(", "XMLHttpRequest", " src="] {
            let allowed =
                if way == "http://" { html.matches("http://www.w3.org/2000/svg").count() } else { 0 };
            assert_eq!(html.matches(way).count(), allowed, "{way}");
        }
    }
}
