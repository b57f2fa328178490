//! Two-dimensional pictures of the rows, as the network sees them and as the kernel does.

use offspan_report::page::{Block, Section};
use offspan_report::plot::{Group, Scatter, Size};

use super::ORDINARY;
use crate::folder::Album;
use crate::portrait::{Picture, Portrait};

pub(super) fn section(portrait: &Portrait, album: &mut Album) -> Section {
    let text = "Points that lie together are alike. t-SNE keeps neighbours together and pays no heed to \
                larger distances; MDS keeps all distances as well as two dimensions allow. Both show a \
                sample of the rows. The axes have no meaning of their own.";
    let mut blocks = vec![Block::Text(text.to_owned())];
    blocks.extend(portrait.no_pictures.iter().cloned().map(Block::Note));
    let plots = portrait.pictures.iter().map(|picture| {
        let kind = picture.kind.to_lowercase().replace('-', "");
        (format!("{kind}-{}", picture.space), scatter(picture).into(), String::new())
    });
    blocks.push(album.show(plots.collect()));
    super::section("Pictures of feature space", blocks)
}

fn scatter(picture: &Picture) -> Scatter {
    let space = match picture.space.as_str() {
        "z" => "as the network gives them (z)",
        _ => "in the kernel's feature space (Φ)",
    };
    let groups = picture.groups.iter().enumerate().map(|(index, (name, points))| {
        Group::new(if index == 0 { ORDINARY } else { name.as_str() }, points.clone())
    });
    Scatter {
        title: format!("{} of the rows {space}", picture.kind),
        groups: groups.collect(),
        embedding: true,
        size: Size { width: 640.0, height: 480.0 },
        ..Scatter::default()
    }
}
