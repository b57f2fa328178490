//! Models.

use offspan_onnx::proto::{
    AttributeProto, AttributeType, DataLocation, DataType, GraphProto, ModelProto, NodeProto,
    StringStringEntryProto, TensorProto,
};

use super::Place;
use super::models::*;

fn changed(change: impl FnOnce(&mut GraphProto)) -> ModelProto {
    let mut model = perceptron();
    change(model.graph.as_mut().unwrap());
    model
}

#[test]
fn files_that_are_no_models() {
    let place = Place::new();
    place.model_is_refused(b"", &["model.onnx: not an ONNX model: the file is empty"]);
    place.model_is_refused(b"# a text file, not a model\n", &["not an ONNX model"]);
    place.model_is_refused(&[0xff; 4096], &["not an ONNX model"]);
    let whole = bytes(&perceptron());
    for length in [1, 7, whole.len() / 3, whole.len() / 2, whole.len() - 1] {
        place.model_is_refused(&whole[..length], &["model.onnx"]);
    }
    place.refused(&ModelProto::default(), &["not an ONNX model: the file is empty"]);
    let without_graph = ModelProto { graph: None, ..perceptron() };
    place.refused(&without_graph, &["not an ONNX model: it has no graph"]);
    std::fs::create_dir(place.path("folder.onnx")).unwrap();
    let refused = place.extract("folder.onnx", "x.npy").unwrap_err();
    assert!(refused.contains("expected a file with an ONNX model"), "{refused}");
}

#[test]
fn every_truncation_of_a_model_is_a_sentence() {
    let place = Place::new();
    let whole = bytes(&perceptron());
    for length in (1..whole.len()).step_by(13) {
        place.model_is_refused(&whole[..length], &["model.onnx"]);
    }
}

#[test]
fn every_flipped_byte_gives_features_or_a_sentence() {
    let place = Place::new();
    let whole = bytes(&perceptron());
    for at in (0..whole.len()).step_by(7) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        place.write("model.onnx", &damaged);
        if let Err(message) = place.extract("model.onnx", "x.npy") {
            assert!(!message.is_empty() && message.len() < 1500, "{at}: {message}");
        }
        let _ = std::fs::remove_dir_all(place.path("pack"));
    }
}

#[test]
fn graphs_that_lack_something() {
    let place = Place::new();
    place.refused(&changed(|graph| graph.node.clear()), &["no nodes"]);
    place.refused(&changed(|graph| graph.output.clear()), &["no outputs"]);
    let output = changed(|graph| graph.output[0].name = Some("nowhere".into()));
    place.refused(&output, &["its output `nowhere` has no source"]);
    let weight = changed(|graph| drop(graph.initializer.remove(0)));
    place.refused(&weight, &["needs `w1`, which is no weight, no input and no result"]);
    let nameless = changed(|graph| graph.initializer[1].name = None);
    place.refused(&nameless, &["has no name"]);
    let twice = changed(|graph| graph.initializer.push(random("w1", &[5, 6], 9)));
    place.refused(&twice, &["two of its weights are called `w1`"]);
    let sparse = changed(|graph| graph.sparse_initializer.push(vec![1, 2, 3].into()));
    place.refused(&sparse, &["sparse weights"]);
}

#[test]
fn values_with_two_sources_and_cycles() {
    let place = Place::new();
    let doubled = changed(|graph| graph.node[1].output = vec!["h".into()]);
    place.refused(&doubled, &["the value `h` has two sources"]);
    let circle = changed(|graph| {
        graph.node[0].input[0] = "zd".into();
    });
    place.refused(&circle, &["depends on itself: the graph has a cycle"]);
    let own = changed(|graph| graph.node[1].input[0] = "z".into());
    place.refused(&own, &["depends on itself"]);
}

#[test]
fn versions_of_operators_that_are_not_read() {
    let place = Place::new();
    let mut model = perceptron();
    model.opset_import[0].version = Some(9);
    place.refused(&model, &["expected operators of version 11 or later, got 9"]);
    model.opset_import.clear();
    place.refused(&model, &["does not say which version of operators"]);
    let unknown = changed(|graph| graph.node[1].op_type = Some("FancyNonlinearity".into()));
    place.refused(&unknown, &["cannot be run by rten", "FancyNonlinearity"]);
}

#[test]
fn weights_that_are_not_what_their_sizes_say() {
    let place = Place::new();
    let short = changed(|graph| graph.initializer[0].dims = vec![5, 7]);
    place.refused(&short, &["the tensor `w1` of sizes [5, 7]: expected 140 bytes, got 120"]);
    let negative = changed(|graph| graph.initializer[0].dims = vec![-5, 6]);
    place.refused(&negative, &["sizes that cannot be, [-5, 6]"]);
    let huge = changed(|graph| graph.initializer[0].dims = vec![i64::MAX, i64::MAX]);
    place.refused(&huge, &["sizes that cannot be"]);
    let kind = changed(|graph| graph.initializer[0].data_type = Some(77));
    place.refused(&kind, &["of a type (number 77) that cannot be used"]);
    let empty = changed(|graph| graph.initializer[0].raw_data = None);
    place.refused(&empty, &["expected 30 numbers, got 0"]);
}

#[test]
fn weights_in_files_that_must_not_be_read() {
    let place = Place::new();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret.data"), [0_u8; 120]).unwrap();
    let entry = |key: &str, value: &str| StringStringEntryProto {
        key: Some(key.to_owned()),
        value: Some(value.to_owned()),
    };
    let external = |entries: Vec<StringStringEntryProto>| {
        changed(|graph| {
            graph.initializer[0].raw_data = None;
            graph.initializer[0].data_location = Some(DataLocation::External as i32);
            graph.initializer[0].external_data = entries;
        })
    };
    let absolute = outside.path().join("secret.data");
    for location in [
        "../secret.data",
        "a/../../secret.data",
        absolute.to_str().unwrap(),
        "/dev/zero",
        "",
        "..\\x",
    ] {
        place
            .refused(&external(vec![entry("location", location)]), &["outside the model's folder"]);
    }
    place.refused(&external(vec![]), &["does not say in which"]);
    place.refused(&external(vec![entry("location", "none.data")]), &["cannot open the weights in"]);
    place.write("some.data", &[0; 100]);
    let some = |more: Vec<StringStringEntryProto>| {
        external([vec![entry("location", "some.data")], more].concat())
    };
    place.refused(&some(vec![]), &["expected 120 bytes from 0 on in `some.data`, which has 100"]);
    place.refused(
        &some(vec![entry("offset", "18446744073709551615")]),
        &["expected 120 bytes from"],
    );
    place.refused(
        &some(vec![entry("offset", "-4")]),
        &["expected a whole number as its offset, got `-4`"],
    );
    place.refused(&some(vec![entry("length", "8")]), &["expected 120 bytes, got 8"]);
    std::fs::create_dir(place.path("folder.data")).unwrap();
    place.refused(
        &external(vec![entry("location", "folder.data")]),
        &["expected a file with weights"],
    );
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&absolute, place.path("link.data")).unwrap();
        place.refused(
            &external(vec![entry("location", "link.data")]),
            &["outside the model's folder"],
        );
    }
}

#[test]
fn small_files_that_ask_for_much_memory() {
    let place = Place::new();
    let with = |nodes: Vec<_>, weights: Vec<TensorProto>| {
        changed(|graph| {
            graph.node[0].input[0] = "large".into();
            for node in nodes.into_iter().rev() {
                graph.node.insert(0, node);
            }
            graph.initializer.extend(weights);
        })
    };
    let million = || whole("sizes", &[1_000_000, 1_000_000]);
    let filled = with(vec![node("ConstantOfShape", &["sizes"], "large")], vec![million()]);
    place.refused(&filled, &["would give [1000000, 1000000] numbers; expected at most"]);
    let stretched = with(
        vec![node("Expand", &["x", "sizes"], "large")],
        vec![whole("sizes", &[1_000_000, 1_000, 1, 6])],
    );
    place.refused(&stretched, &["would give [1000000"]);
    let tiled = with(
        vec![node("Tile", &["x", "sizes"], "large")],
        vec![whole("sizes", &[100_000_000, 10])],
    );
    place.refused(&tiled, &["would give"]);
    let column = || tensor("column", &[100_000, 1], &vec![0.0; 100_000]);
    let line = || tensor("line", &[1, 100_000], &vec![0.0; 100_000]);
    let outer = with(vec![node("Add", &["column", "line"], "large")], vec![column(), line()]);
    place.refused(&outer, &["would give [100000, 100000] numbers"]);
    let product = with(vec![node("MatMul", &["column", "line"], "large")], vec![column(), line()]);
    place.refused(&product, &["would give [100000, 100000] numbers"]);
    let pads = with(
        vec![node("Pad", &["x", "sizes"], "large")],
        vec![whole("sizes", &[0, 0, 1 << 40, 1 << 40])],
    );
    place.refused(&pads, &["would give"]);
    let scaled = with(
        vec![node("Resize", &["x", "", "factors"], "large")],
        vec![tensor("factors", &[2], &[1e9, 1e9])],
    );
    place.refused(&scaled, &["would give"]);
    let ranged = with(
        vec![node("Range", &["zero", "far", "one"], "large")],
        vec![whole("zero", &[0]), whole("far", &[i64::MAX]), whole("one", &[1])],
    );
    place.refused(&ranged, &["would give"]);
}

/// A perceptron whose first layer takes `large`, which these nodes make.
fn with_nodes(nodes: Vec<NodeProto>, weights: Vec<TensorProto>) -> ModelProto {
    changed(|graph| {
        graph.node[0].input[0] = "large".into();
        graph.node.splice(0..0, nodes);
        graph.initializer.extend(weights);
    })
}

/// What makes `large` of a value `big`: its sum is added to the input.
fn summed(mut nodes: Vec<NodeProto>, weights: Vec<TensorProto>) -> ModelProto {
    nodes.push(with_int(node("ReduceSum", &["big"], "sum"), "keepdims", 0));
    nodes.push(node("Add", &["x", "sum"], "large"));
    with_nodes(nodes, weights)
}

fn with_floats(mut node: NodeProto, name: &str, values: &[f32]) -> NodeProto {
    node.attribute.push(AttributeProto {
        name: Some(name.to_owned()),
        floats: values.to_vec(),
        r#type: Some(AttributeType::Floats as i32),
        ..AttributeProto::default()
    });
    node
}

fn with_text(mut node: NodeProto, name: &str, text: &str) -> NodeProto {
    node.attribute.push(AttributeProto {
        name: Some(name.to_owned()),
        s: Some(text.as_bytes().to_vec().into()),
        r#type: Some(AttributeType::String as i32),
        ..AttributeProto::default()
    });
    node
}

fn with_graph(mut node: NodeProto, name: &str, graph: GraphProto) -> NodeProto {
    node.attribute.push(AttributeProto {
        name: Some(name.to_owned()),
        g: Some(graph),
        r#type: Some(AttributeType::Graph as i32),
        ..AttributeProto::default()
    });
    node
}

fn one_number(name: &str, number: i64) -> TensorProto {
    TensorProto { dims: vec![], ..whole(name, &[number]) }
}

fn flag(name: &str) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        data_type: Some(DataType::Bool as i32),
        raw_data: Some(vec![1].into()),
        ..TensorProto::default()
    }
}

#[test]
fn sizes_that_are_computed_from_constants() {
    let place = Place::new();
    let filled = || node("ConstantOfShape", &["sizes"], "big");
    let million = [1_000_000, 1_000_000];
    let said = with_ints(node("Constant", &[], "sizes"), "value_ints", &million);
    place.refused(&summed(vec![said, filled()], vec![]), &["would give [1000000, 1000000]"]);
    for (kind, inputs) in [("Identity", &["a"][..]), ("Mul", &["a", "b"]), ("Max", &["a", "b"])] {
        let model = summed(
            vec![node(kind, inputs, "sizes"), filled()],
            vec![whole("a", &million), whole("b", &[1, 1])],
        );
        place.refused(&model, &["would give [1000000, 1000000]"]);
    }
    let cast = with_int(node("Cast", &["reals"], "sizes"), "to", DataType::Int64 as i64);
    let reals = with_floats(node("Constant", &[], "reals"), "value_floats", &[1e6, 1e6]);
    place.refused(&summed(vec![reals, cast, filled()], vec![]), &["would give [1000000"]);
    let gathered = node("Gather", &["a", "places"], "sizes");
    let weights = vec![whole("a", &[3, 1_000_000]), whole("places", &[1, -1])];
    place.refused(&summed(vec![gathered, filled()], weights), &["would give [1000000, 1000000]"]);
    // From the input's own shape.
    let nodes = vec![
        node("Shape", &["x"], "shape"),
        node("Mul", &["shape", "a"], "times"),
        node("Tile", &["x", "times"], "big"),
    ];
    place.refused(&summed(nodes, vec![whole("a", &[100_000, 100_000])]), &["would give ["]);
}

#[test]
fn products_of_two_long_lists() {
    let place = Place::new();
    let list = || random("list", &[100_000], 3);
    let axes = || vec![list(), whole("first", &[0]), whole("last", &[1])];
    let unsqueezed = |inputs: [&str; 2], output: &str| node("Unsqueeze", &inputs, output);
    let outer = summed(
        vec![
            unsqueezed(["list", "first"], "line"),
            unsqueezed(["list", "last"], "column"),
            node("Add", &["line", "column"], "big"),
        ],
        axes(),
    );
    place.refused(&outer, &["would give [100000, 100000] numbers"]);
    let reshaped = summed(
        vec![
            node("Reshape", &["list", "to_line"], "line"),
            node("Reshape", &["list", "to_column"], "column"),
            node("Mul", &["line", "column"], "big"),
        ],
        vec![list(), whole("to_line", &[1, -1]), whole("to_column", &[-1, 1])],
    );
    place.refused(&reshaped, &["would give [100000, 100000] numbers"]);
    for equation in ["i,j->ij", "i,j", "i, j -> ji"] {
        let einsum = with_text(node("Einsum", &["list", "list"], "big"), "equation", equation);
        place.refused(&summed(vec![einsum], vec![list()]), &["would give [100000, 100000]"]);
    }
    let chosen = summed(
        vec![with_int(node("Gather", &["row", "places"], "big"), "axis", 0)],
        vec![random("row", &[1, 100_000], 4), whole("places", &vec![0; 100_000])],
    );
    place.refused(&chosen, &["would give [100000, 100000]"]);
}

#[test]
fn much_memory_in_another_order_and_in_branches() {
    let place = Place::new();
    // The last node of the file is the first that runs.
    let unordered = with_nodes(
        vec![
            node("Add", &["x", "sum"], "large"),
            with_int(node("ReduceSum", &["big"], "sum"), "keepdims", 0),
            node("Add", &["relu", "line"], "big"),
            node("Relu", &["column"], "relu"),
        ],
        vec![random("column", &[100_000, 1], 5), random("line", &[1, 100_000], 6)],
    );
    place.refused(&unordered, &["would give [100000, 100000]"]);
    let branch = |size: i64, name: &str| GraphProto {
        name: Some(name.to_owned()),
        node: vec![
            node("ConstantOfShape", &[&format!("{name}-sizes")], &format!("{name}-big")),
            with_int(
                node("ReduceSum", &[&format!("{name}-big")], &format!("{name}-sum")),
                "keepdims",
                0,
            ),
        ],
        initializer: vec![whole(&format!("{name}-sizes"), &[size, size])],
        output: vec![value(&format!("{name}-sum"), &[])],
        ..GraphProto::default()
    };
    for (yes, no) in [(1_000_000, 2), (2, 1_000_000)] {
        let chosen = with_graph(node("If", &["flag"], "sum"), "then_branch", branch(yes, "yes"));
        let chosen = with_graph(chosen, "else_branch", branch(no, "no"));
        let model =
            with_nodes(vec![chosen, node("Add", &["x", "sum"], "large")], vec![flag("flag")]);
        place.refused(&model, &["would give [1000000, 1000000]"]);
    }
    let most = summed(
        vec![NodeProto {
            output: vec!["big".to_owned(), "places".to_owned()],
            ..node("TopK", &["x", "count"], "big")
        }],
        vec![whole("count", &[1 << 40])],
    );
    place.refused(&most, &["would give ["]);
    let real = |name: &str, number: f32| tensor(name, &[], &[number]);
    let ranged = summed(
        vec![node("Range", &["zero", "far", "one"], "big")],
        vec![real("zero", 0.0), real("far", 1e11), real("one", 1.0)],
    );
    place.refused(&ranged, &["would give ["]);
}

#[test]
fn loops_that_do_not_end_or_grow() {
    let place = Place::new();
    let body = |kind: &str| {
        let inputs: &[&str] = if kind == "Concat" { &["v", "v"] } else { &["v"] };
        GraphProto {
            name: Some("body".to_owned()),
            node: vec![
                node("Identity", &["go"], "go-on"),
                with_int(node(kind, inputs, "next"), "axis", 0),
            ],
            input: vec![value("turn", &[]), value("go", &[]), value("v", &[-1, 6])],
            output: vec![value("go-on", &[]), value("next", &[-1, 6])],
            ..GraphProto::default()
        }
    };
    let looped = |count: &str, kind: &str, weights: Vec<TensorProto>| {
        let turns = with_graph(node("Loop", &[count, "flag", "x"], "large"), "body", body(kind));
        with_nodes(vec![turns], [vec![flag("flag")], weights].concat())
    };
    place.refused(&looped("", "Softmax", vec![]), &["has no constant number of turns"]);
    let often = looped("count", "Softmax", vec![one_number("count", 1 << 40)]);
    place.refused(&often, &["would turn 1099511627776 times; expected at most 1024"]);
    let doubling = looped("count", "Concat", vec![one_number("count", 40)]);
    place.refused(&doubling, &["would give ["]);
    let scan = with_int(node("Scan", &["x"], "large"), "num_scan_inputs", 1);
    let long = with_nodes(
        vec![
            node("Expand", &["x", "sizes"], "wide"),
            with_graph(
                NodeProto { input: vec!["wide".to_owned()], ..scan },
                "body",
                GraphProto {
                    node: vec![node("Relu", &["slice"], "result")],
                    input: vec![value("slice", &[-1, 6])],
                    output: vec![value("result", &[-1, 6])],
                    ..GraphProto::default()
                },
            ),
        ],
        vec![whole("sizes", &[5_000, 1, 1])],
    );
    place.refused(&long, &["would turn 5000 times; expected at most 1024"]);
}

#[test]
fn an_input_of_more_numbers_than_there_may_be() {
    let place = Place::new();
    let wide = changed(|graph| graph.input[0] = value("x", &[1 << 24, 6, 100, 100]));
    place.refused(&wide, &["the input would give [16777216, 6, 100, 100] numbers"]);
}

#[test]
fn shapes_that_do_not_go_together() {
    let place = Place::new();
    let narrow = changed(|graph| graph.initializer[0] = random("w1", &[5, 4], 1));
    place.refused(&narrow, &["model.onnx: "]);
    let solid = changed(|graph| graph.initializer[0] = random("w1", &[5, 6, 2], 1));
    place.refused(&solid, &["model.onnx: "]);
    let bias = changed(|graph| graph.initializer[3] = random("b2", &[2], 1));
    place.refused(&bias, &["expected 3 numbers, got 2"]);
    let weight = changed(|graph| graph.initializer[2] = random("w2", &[3, 5, 1], 1));
    place.refused(&weight, &["expected two dimensions, got [3, 5, 1]"]);
    let turned = changed(|graph| {
        graph.node[1] = with_ints(node("Transpose", &["h"], "z"), "perm", &[1, 0]);
    });
    place.refused(&turned, &["model.onnx: "]);
    let hopeless = changed(|graph| graph.node[0].input.clear());
    place.refused(&hopeless, &["model.onnx: "]);
}

#[test]
fn inputs_that_cannot_be_given() {
    let place = Place::new();
    let two = changed(|graph| graph.input.push(value("mask", &[-1, 6])));
    place.refused(&two, &["expected a model with one input, got 2 (x, mask)"]);
    let none = changed(|graph| {
        graph.input.clear();
        graph.initializer.push(random("x", &[2, 6], 3));
    });
    place.refused(&none, &["expected a model with one input, got 0"]);
    let huge = changed(|graph| graph.input[0] = value("x", &[-1, 1 << 40]));
    place.refused(&huge, &["expected sizes up to", "1099511627776"]);
    let flat = changed(|graph| graph.input[0] = value("x", &[6]));
    place.refused(&flat, &["got 1 dimensions"]);
    let typed = changed(|graph| {
        let kind = graph.input[0].r#type.as_mut().unwrap();
        let Some(offspan_onnx::proto::type_proto::Value::TensorType(tensor)) = &mut kind.value
        else {
            unreachable!()
        };
        tensor.elem_type = Some(DataType::Int64 as i32);
    });
    place.refused(&typed, &["expected numbers in single precision (float), got int64"]);
    let untyped = changed(|graph| graph.input[0].r#type = None);
    place.refused(&untyped, &["expected a tensor, got another type"]);
}

#[test]
fn results_that_are_no_features() {
    let place = Place::new();
    let infinite = changed(|graph| {
        graph.initializer[1] = tensor("b1", &[5], &[f32::INFINITY; 5]);
    });
    place.refused(&infinite, &["row 0: the network gives inf for it"]);
    let summed = changed(|graph| {
        graph.node[1] = with_ints(node("ReduceMax", &["h"], "z"), "axes", &[0]);
    });
    place.refused(&summed, &["model.onnx: "]);
}

#[test]
fn graphs_without_end() {
    let place = Place::new();
    // Graphs within graphs, deeper than any reader should go.
    let mut inner = GraphProto::default();
    for _ in 0..300 {
        let mut outer = node("If", &["x"], "y");
        outer.attribute.push(AttributeProto {
            name: Some("then_branch".to_owned()),
            g: Some(inner),
            r#type: Some(AttributeType::Graph as i32),
            ..AttributeProto::default()
        });
        inner = GraphProto { node: vec![outer], ..GraphProto::default() };
    }
    let deep = changed(|graph| graph.node.extend(inner.node));
    place.refused(&deep, &["not an ONNX model"]);
    let chain = |length: usize| {
        changed(|graph| {
            let name = |index: usize| if index == 0 { "x".to_owned() } else { format!("c{index}") };
            let links = (0..length).map(|i| node("Identity", &[&name(i)], &name(i + 1)));
            let mut nodes: Vec<_> = links.collect();
            graph.node[0].input[0] = name(length);
            nodes.append(&mut graph.node);
            graph.node = nodes;
        })
    };
    place.refused(&chain(100_001), &["expected at most 100000 nodes"]);
    // A long chain is no harm, and must not exhaust the stack.
    place.write("model.onnx", &bytes(&chain(5_000)));
    assert_eq!(place.extract("model.onnx", "x.npy"), Ok(3));
}
