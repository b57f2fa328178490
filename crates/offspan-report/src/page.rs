//! A report as one HTML page that needs nothing else: no scripts, no fonts, no network.

use std::fmt::Write;

use crate::plot::{escape, page_css};
pub use crate::table::{Better, Cell, Heading, Table};

/// A page.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Its title.
    pub title: String,
    /// What it says, in a sentence or two, before everything else.
    pub lead: Vec<String>,
    /// Its parts.
    pub sections: Vec<Section>,
    /// What made it, for the last line.
    pub made_by: String,
}

/// A part of a page.
#[derive(Debug, Clone, Default)]
pub struct Section {
    /// Its title.
    pub title: String,
    /// What is in it, in order.
    pub blocks: Vec<Block>,
}

/// A piece of a section.
#[derive(Debug, Clone)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// A paragraph that stands out.
    Note(String),
    /// Names with what they stand for.
    Facts(Vec<(String, String)>),
    /// A table.
    Table(Table),
    /// Plots side by side, as SVG for pages ([`crate::plot::Theme::Page`]), each with a caption.
    Figures(Vec<(String, String)>),
    /// Blocks that open when the reader clicks on their title.
    Folded(String, Vec<Block>),
    /// Pictures with captions, as data URIs.
    Pictures(Vec<Picture>),
}

/// A picture with what is written below it.
#[derive(Debug, Clone)]
pub struct Picture {
    /// `data:image/…;base64,…`
    pub data_uri: String,
    /// What is written below.
    pub caption: String,
}

#[cfg(feature = "png")]
impl Picture {
    /// A picture of grey (1 channel) or coloured (3 channels) pixels, row by row.
    ///
    /// # Errors
    /// If there are not width × height × channels pixels, or they cannot be encoded.
    pub fn from_pixels(
        size: (usize, usize),
        channels: usize,
        pixels: &[u8],
        caption: String,
    ) -> Result<Self, crate::plot::PngError> {
        use base64::prelude::{BASE64_STANDARD, Engine as _};
        let png = crate::plot::encode_pixels(size, channels, pixels)?;
        let data_uri = format!("data:image/png;base64,{}", BASE64_STANDARD.encode(png));
        Ok(Picture { data_uri, caption })
    }
}

impl Page {
    /// The page as HTML.
    #[must_use]
    pub fn html(&self) -> String {
        let mut html = String::with_capacity(1 << 16);
        // Writing to a String cannot fail.
        let _ = write!(
            html,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'unsafe-inline'; img-src data:\">\n\
             <title>{}</title>\n<style>\n{}{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{}</h1>\n",
            escape(&self.title),
            page_css(),
            escape(&self.title),
        );
        for sentence in &self.lead {
            let _ = writeln!(html, "<p class=\"lead\">{}</p>", escape(sentence));
        }
        html += "</header>\n";
        if self.sections.len() > 2 {
            html += "<nav>";
            for (index, section) in self.sections.iter().enumerate() {
                let _ = write!(html, "<a href=\"#s{index}\">{}</a> ", escape(&section.title));
            }
            html += "</nav>\n";
        }
        html += "<main>\n";
        for (index, section) in self.sections.iter().enumerate() {
            let _ =
                writeln!(html, "<section id=\"s{index}\">\n<h2>{}</h2>", escape(&section.title));
            section.blocks.iter().for_each(|block| block.write(&mut html));
            html += "</section>\n";
        }
        let _ =
            write!(html, "</main>\n<footer>{}</footer>\n</body>\n</html>\n", escape(&self.made_by));
        html
    }
}

impl Block {
    fn write(&self, html: &mut String) {
        let _ = match self {
            Block::Text(text) => writeln!(html, "<p>{}</p>", prose(text)),
            Block::Note(text) => writeln!(html, "<p class=\"note\">{}</p>", prose(text)),
            Block::Facts(facts) => {
                *html += "<dl>\n";
                for (name, fact) in facts {
                    let _ = writeln!(html, "<dt>{}</dt><dd>{}</dd>", escape(name), prose(fact));
                }
                writeln!(html, "</dl>")
            }
            Block::Table(table) => write!(html, "{}", table.html()),
            Block::Figures(figures) => {
                *html += "<div class=\"figures\">\n";
                for (svg, caption) in figures {
                    let _ = write!(html, "<figure>\n{svg}\n");
                    if !caption.is_empty() {
                        let _ = writeln!(html, "<figcaption>{}</figcaption>", escape(caption));
                    }
                    *html += "</figure>\n";
                }
                writeln!(html, "</div>")
            }
            Block::Folded(title, blocks) => {
                let _ = writeln!(html, "<details><summary>{}</summary>", escape(title));
                blocks.iter().for_each(|block| block.write(html));
                writeln!(html, "</details>")
            }
            Block::Pictures(pictures) => {
                *html += "<div class=\"pictures\">\n";
                for Picture { data_uri, caption } in pictures {
                    let _ = writeln!(
                        html,
                        "<figure><img src=\"{}\" alt=\"{}\"><figcaption>{}</figcaption></figure>",
                        escape(data_uri),
                        escape(caption),
                        escape(caption)
                    );
                }
                writeln!(html, "</div>")
            }
        };
    }
}

/// Sentences, in which what stands between backticks is to be typed.
fn prose(text: &str) -> String {
    let pieces: Vec<String> = text.split('`').map(|text| escape(text).into_owned()).collect();
    // A lone backtick is one.
    if pieces.len().is_multiple_of(2) {
        return pieces.join("`");
    }
    let tag = |(index, piece): (usize, &String)| match index % 2 {
        0 => piece.clone(),
        _ => format!("<code>{piece}</code>"),
    };
    pieces.iter().enumerate().map(tag).collect()
}

const STYLE: &str = "\
*{box-sizing:border-box}
:root{color-scheme:light dark}
body{margin:0 auto;max-width:76rem;padding:1.5rem;background:var(--paper);color:var(--ink);\
font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 .6rem}
h2{font-size:1.25rem;margin:2.4rem 0 .6rem;padding-top:.8rem;border-top:1px solid var(--grid)}
p{max-width:46rem;margin:.5rem 0}
code{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:.92em}
.lead{font-size:1.1rem}
.note{border-left:4px solid var(--c0);padding:.4rem .8rem;background:var(--shade)}
nav{margin:1rem 0;line-height:2}
nav a{color:var(--ink);margin-right:1rem;white-space:nowrap}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1.2rem;margin:.8rem 0}
dt{color:var(--muted)}dd{margin:0;overflow-wrap:anywhere}
.table{display:inline-block;vertical-align:top;max-width:100%;overflow-x:auto;margin:1rem 0;padding-right:2rem}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--muted);padding-bottom:.3rem}
th,td{padding:.25rem .7rem;text-align:right;white-space:nowrap}
thead th{border-bottom:2px solid var(--grid);font-weight:600;white-space:normal;vertical-align:bottom}
thead .groups th{text-align:center;border-bottom:1px solid var(--grid)}
tfoot td{text-align:left;white-space:normal;color:var(--muted);font-size:.9em;border-top:2px solid var(--grid)}
th.words,td.words,th[scope=row],thead th:first-child{text-align:left}
th[scope=row]{font-weight:inherit;position:sticky;left:0;background:var(--paper)}
td small{display:block;color:var(--muted);font-size:.8em;line-height:1.2}
tbody tr+tr{border-top:1px solid var(--grid)}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(30rem,100%),1fr));gap:1rem;align-items:start}
figure{margin:0;overflow-x:auto}
figure svg{width:100%;height:auto}
details{margin:1rem 0}
summary{cursor:pointer;color:var(--muted)}
figcaption{color:var(--muted);font-size:.92rem;max-width:40rem}
.pictures{display:flex;flex-wrap:wrap;gap:.6rem}
.pictures figure{flex:0 0 auto;max-width:8rem;overflow:visible}
.pictures img{width:6rem;height:6rem;object-fit:contain;image-rendering:pixelated;border:1px solid var(--grid)}
footer{margin-top:3rem;color:var(--muted);font-size:.9rem}
@media(max-width:40rem){figure svg{min-width:32rem}dl{grid-template-columns:1fr}dd{margin-bottom:.4rem}}
@media print{nav{display:none}body{max-width:none}}
";

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Page {
        let table = Table {
            caption: "a < b".to_owned(),
            header: vec!["method".into(), "FPR95".into()],
            rows: vec![
                vec![
                    "knn | react".into(),
                    Cell {
                        text: "4.65".to_owned(),
                        interval: Some(["4".to_owned(), "5".to_owned()]),
                        best: true,
                        ..Cell::default()
                    },
                ],
                vec!["\"pca\", plain".into(), "5.86".into()],
            ],
            ..Table::default()
        };
        Page {
            title: "Report <script>alert(1)</script>".to_owned(),
            lead: vec!["It & them".to_owned()],
            sections: vec![Section {
                title: "One".to_owned(),
                blocks: vec![
                    Block::Text("<b> `<b>` and more".to_owned()),
                    Block::Facts(vec![("rows".to_owned(), "5".to_owned())]),
                    Block::Table(table),
                ],
            }],
            made_by: "offspan".to_owned(),
        }
    }

    #[test]
    fn what_users_name_cannot_become_markup() {
        let html = page().html();
        assert!(!html.contains("<script>") && !html.contains("<b>"));
        assert!(html.contains("&lt;script&gt;alert(1)"));
        assert!(html.contains("<p>&lt;b&gt; <code>&lt;b&gt;</code> and more</p>"));
        assert_eq!(prose("a ` b"), "a ` b");
        assert!(html.contains("<strong>4.65</strong><small>(4 – 5)</small>"));
    }

    #[test]
    fn the_page_asks_for_nothing_from_elsewhere() {
        let html = page().html();
        for word in ["http://", "https://", "src=\"/", "@import", "url("] {
            assert!(!html.contains(word), "{word}");
        }
    }

    #[cfg(feature = "png")]
    #[test]
    fn pixels_become_a_picture_or_say_what_is_missing() {
        let grey = Picture::from_pixels((2, 1), 1, &[0, 255], String::new()).unwrap();
        let colour =
            Picture::from_pixels((2, 1), 3, &[0, 0, 0, 255, 255, 255], String::new()).unwrap();
        assert_eq!(grey.data_uri, colour.data_uri);
        assert!(grey.data_uri.starts_with("data:image/png;base64,iVBORw0KGgo"));
        let error = Picture::from_pixels((2, 2), 1, &[0], String::new()).unwrap_err().to_string();
        assert!(error.contains("2 × 2"), "{error}");
    }
}
