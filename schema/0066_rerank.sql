-- Models that sort documents by their relevance to a query, and servers with the protocol of text-embeddings-inference.
alter table model drop constraint model_kind_check;
alter table model add constraint model_kind_check check (kind in ('chat', 'embedding', 'rerank', 'image', 'speech'));
alter table deployment drop constraint deployment_protocol_check;
alter table deployment add constraint deployment_protocol_check
  check (protocol in ('chat', 'tei', 'images', 'txt2img', 'speech'));
