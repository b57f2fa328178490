//! gRPC: the same requests as protocol buffers.

pub(crate) mod codec;
#[allow(clippy::all, clippy::pedantic, missing_docs, unreachable_pub, unused_qualifications)]
#[rustfmt::skip]
pub(crate) mod messages;

use std::sync::Arc;

use axum::Router;
use axum::routing::any_service;
use bytes::Bytes;
use prost::Message;
use tonic::codec::CompressionEncoding;
use tonic::{Request, Response, Status};

use self::messages::grpc_inference_service_server::{
    GrpcInferenceService, GrpcInferenceServiceServer,
};
use self::messages::{
    InferTensorContents, ModelInferRequest, ModelInferResponse, ModelMetadataRequest,
    ModelMetadataResponse, ModelReadyRequest, ModelReadyResponse, RepositoryIndexRequest,
    RepositoryIndexResponse, RepositoryModelLoadRequest, RepositoryModelLoadResponse,
    RepositoryModelUnloadRequest, RepositoryModelUnloadResponse, ServerLiveRequest,
    ServerLiveResponse, ServerMetadataRequest, ServerMetadataResponse, ServerReadyRequest,
    ServerReadyResponse, model_infer_request, model_infer_response,
    model_metadata_response::TensorMetadata, repository_index_response::ModelIndex,
};
use crate::admin;
use crate::app::{App, Arrived};
use crate::models::Version;
use crate::net::body::Held;
use crate::protocol::answer::Answer;
use crate::protocol::element::Element;
use crate::protocol::pieces::Pieces;
use crate::protocol::request::InferRequest;
use crate::protocol::signature::shown;
use crate::protocol::tensor::Tensor;
use crate::refusal::Refusal;
use crate::rest::describe::{EXTENSIONS, NAME, platform};
use crate::trace::Trace;

/// The routes of the service.
pub(crate) fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    let most = app.config.max_body;
    let service = GrpcInferenceServiceServer::new(Service(Arc::clone(app)))
        .max_decoding_message_size(most)
        .max_encoding_message_size(usize::MAX)
        .accept_compressed(CompressionEncoding::Gzip)
        .send_compressed(CompressionEncoding::Gzip);
    Router::new()
        .route("/inference.GRPCInferenceService/{call}", any_service(service))
        .fallback(nowhere)
}

async fn nowhere() -> axum::response::Response {
    Status::unimplemented("there is no such service").into_http()
}

struct Service(Arc<App>);

/// A version as requests name it: an empty text is none.
fn number(version: &str) -> Option<&str> {
    (!version.is_empty()).then_some(version)
}

#[tonic::async_trait]
impl GrpcInferenceService for Service {
    async fn server_live(
        &self,
        _: Request<ServerLiveRequest>,
    ) -> Result<Response<ServerLiveResponse>, Status> {
        Ok(Response::new(ServerLiveResponse { live: true }))
    }

    async fn server_ready(
        &self,
        _: Request<ServerReadyRequest>,
    ) -> Result<Response<ServerReadyResponse>, Status> {
        Ok(Response::new(ServerReadyResponse { ready: self.0.ready() }))
    }

    async fn model_ready(
        &self,
        request: Request<ModelReadyRequest>,
    ) -> Result<Response<ModelReadyResponse>, Status> {
        let ModelReadyRequest { name, version } = request.into_inner();
        let ready = self.0.repository.find(&name, number(&version)).is_ok();
        Ok(Response::new(ModelReadyResponse { ready }))
    }

    async fn server_metadata(
        &self,
        _: Request<ServerMetadataRequest>,
    ) -> Result<Response<ServerMetadataResponse>, Status> {
        Ok(Response::new(ServerMetadataResponse {
            name: NAME.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            extensions: EXTENSIONS.map(str::to_owned).to_vec(),
        }))
    }

    async fn model_metadata(
        &self,
        request: Request<ModelMetadataRequest>,
    ) -> Result<Response<ModelMetadataResponse>, Status> {
        let ModelMetadataRequest { name, version } = request.into_inner();
        let version = self.0.repository.find(&name, number(&version))?;
        let tensor = |name: &str, datatype: &str, shape| TensorMetadata {
            name: name.to_owned(),
            datatype: datatype.to_owned(),
            shape,
        };
        let signature = &version.signature;
        Ok(Response::new(ModelMetadataResponse {
            versions: self.0.repository.versions(&version.name),
            platform: platform(&version),
            inputs: signature.inputs.iter().map(|i| tensor(&i.name, "FP32", i.shape())).collect(),
            outputs: signature
                .outputs
                .iter()
                .map(|o| tensor(o.name(), o.datatype(), vec![-1]))
                .collect(),
            name: version.name.clone(),
        }))
    }

    async fn model_infer(
        &self,
        request: Request<ModelInferRequest>,
    ) -> Result<Response<ModelInferResponse>, Status> {
        let arrived = request.extensions().get::<Arrived>().copied();
        let arrived = arrived.unwrap_or_else(|| Arrived(std::time::Instant::now()));
        let trace = request.extensions().get::<Trace>().cloned();
        let request_id = trace.map(|trace| trace.request_id).unwrap_or_default();
        let held = request.extensions().get::<Held>().cloned();
        let held = held.ok_or_else(|| Status::internal("a request that nobody has weighed"))?;
        let packed = request.metadata().get("grpc-encoding").is_some_and(|name| name != "identity");
        let request = request.into_inner();
        let paid = held.take(room_for(&request, packed));
        let find = |()| self.0.repository.find(&request.model_name, number(&request.model_version));
        let version = paid.and_then(find);
        let (version, result) = match version {
            Ok(version) => {
                let result = infer(&self.0, &version, request, &request_id, arrived, &held).await;
                (Some(version), result)
            }
            Err(refusal) => (None, Err(refusal)),
        };
        let code = result.as_ref().map_or_else(|refusal| refusal.kind.status().as_u16(), |_| 200);
        self.0.count(version.as_deref(), "grpc", code, arrived);
        Ok(Response::new(respond(result?)))
    }

    async fn repository_index(
        &self,
        request: Request<RepositoryIndexRequest>,
    ) -> Result<Response<RepositoryIndexResponse>, Status> {
        let only_ready = request.into_inner().ready;
        let index = self.0.repository.index();
        let models = index.into_iter().filter(|entry| !only_ready || entry.state == "READY");
        let models = models.map(|entry| ModelIndex {
            name: entry.name,
            version: entry.version,
            state: entry.state.to_owned(),
            reason: entry.reason,
        });
        Ok(Response::new(RepositoryIndexResponse { models: models.collect() }))
    }

    async fn repository_model_load(
        &self,
        request: Request<RepositoryModelLoadRequest>,
    ) -> Result<Response<RepositoryModelLoadResponse>, Status> {
        self.0.check_open_admin()?;
        admin::load(&self.0, request.into_inner().model_name).await?;
        Ok(Response::new(RepositoryModelLoadResponse {}))
    }

    async fn repository_model_unload(
        &self,
        request: Request<RepositoryModelUnloadRequest>,
    ) -> Result<Response<RepositoryModelUnloadResponse>, Status> {
        self.0.check_open_admin()?;
        self.0.repository.unload(&request.into_inner().model_name)?;
        Ok(Response::new(RepositoryModelUnloadResponse {}))
    }
}

async fn infer(
    app: &App,
    version: &Arc<Version>,
    request: ModelInferRequest,
    request_id: &str,
    arrived: Arrived,
    held: &Held,
) -> Result<Answer, Refusal> {
    app.infer(version, read(request)?, request_id, arrived, held).await
}

/// What a message takes beside its body: itself, if that was packed, and numbers in fields, which become bytes.
fn room_for(request: &ModelInferRequest, packed: bool) -> usize {
    let contents = request.inputs.iter().filter_map(|input| input.contents.as_ref());
    let numbers: usize =
        contents.map(|typed| typed.fp32_contents.len() + typed.fp64_contents.len()).sum();
    let message = if packed { request.encoded_len() } else { 0 };
    message.saturating_add(size_of::<f64>() * numbers)
}

/// A request in the words of both protocols.
pub(crate) fn read(request: ModelInferRequest) -> Result<InferRequest, Refusal> {
    let ModelInferRequest { id, inputs, outputs, raw_input_contents, .. } = request;
    let is_raw = !raw_input_contents.is_empty();
    if is_raw && raw_input_contents.len() != inputs.len() {
        return Err(Refusal::bad(format!(
            "expected raw contents for each of the {} inputs, got {}",
            inputs.len(),
            raw_input_contents.len()
        )));
    }
    let mut raw = raw_input_contents.into_iter();
    let mut tensors = Vec::new();
    for input in inputs {
        let model_infer_request::InferInputTensor { name, datatype, shape, contents, parameters } =
            input;
        let wrong = |reason: &str| Refusal::bad(format!("input `{}`: {reason}", shown(&name)));
        if parameters.contains_key("shared_memory_region") {
            return Err(wrong("shared memory is not supported; send the numbers"));
        }
        let bytes = raw.next();
        let tensor =
            Tensor::received(&name, &datatype, &shape, |element, count| match (bytes, contents) {
                (Some(_), Some(_)) => Err(wrong("expected raw contents or typed ones, got both")),
                (Some(bytes), None) => Ok(Pieces::from(bytes)),
                (None, contents) => {
                    typed(element, count, contents.unwrap_or_default()).map_err(|r| wrong(&r))
                }
            })?;
        tensors.push((name, tensor));
    }
    Ok(InferRequest {
        id: (!id.is_empty()).then_some(id),
        inputs: tensors,
        outputs: outputs.into_iter().map(|output| (output.name, None)).collect(),
        binary: true,
    })
}

/// Numbers in the field of their type.
fn typed(element: Element, count: usize, contents: InferTensorContents) -> Result<Pieces, String> {
    let numbers: Vec<f64> = match element {
        Element::F32 => contents.fp32_contents.into_iter().map(f64::from).collect(),
        Element::F64 => contents.fp64_contents,
        Element::F16 | Element::Bf16 => {
            return Err(format!("{} numbers have no field: expected raw contents", element.name()));
        }
    };
    if numbers.len() != count {
        return Err(format!(
            "expected {count} numbers in {}_contents, got {}",
            element.name().to_lowercase(),
            numbers.len()
        ));
    }
    Ok(element.encode(&numbers).into())
}

fn respond(answer: Answer) -> ModelInferResponse {
    let rows = i64::try_from(answer.verdicts.rows()).unwrap_or(i64::MAX);
    let outputs = answer.wanted.iter().map(|wanted| model_infer_response::InferOutputTensor {
        name: wanted.output.name().to_owned(),
        datatype: wanted.output.datatype().to_owned(),
        shape: vec![rows],
        ..Default::default()
    });
    ModelInferResponse {
        outputs: outputs.collect(),
        raw_output_contents: answer
            .wanted
            .iter()
            .map(|wanted| Bytes::from(answer.verdicts.bytes(wanted.output)))
            .collect(),
        model_name: answer.model,
        model_version: answer.version,
        id: answer.id.unwrap_or_default(),
        ..ModelInferResponse::default()
    }
}

#[cfg(test)]
mod tests {
    use xxhash_rust::xxh3::xxh3_128;

    /// `messages.rs` is written by the test `messages` (`--features protox`), with the hash of what it was made from.
    #[test]
    fn the_messages_are_those_of_the_proto_file() {
        let proto = include_bytes!("../../proto/open_inference.proto");
        let written = include_str!("messages.rs").lines().next().unwrap_or_default();
        let expected = format!("// From open_inference.proto, xxh3-128 {:032x}.", xxh3_128(proto));
        assert_eq!(
            written, expected,
            "run `cargo test -p offspan-server --features protox --test messages -- --ignored`"
        );
    }
}
