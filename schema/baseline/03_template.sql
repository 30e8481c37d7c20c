-- Templates: named sets of order options. Orders are expanded once, so a rental never changes with its template.

create table template (
  id         text primary key,
  -- null: the operator's, for everyone.
  account_id text references account,
  name       text not null,
  -- `private`: its account only. `link`: anyone who knows the id.
  visibility text not null default 'private' check (visibility in ('private', 'link')),
  -- The newest of template_version.
  version    integer not null default 1 check (version >= 1),
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null
);
create index template_by_account on template (account_id, name);

create table template_version (
  template_id text not null references template on delete cascade,
  version     integer not null check (version >= 1),
  -- TemplateBody in src/contract/template.ts.
  body        jsonb not null,
  created_at  timestamptz(3) not null,
  primary key (template_id, version)
);

-- A starter set, which the operator may change or delete.
insert into template (id, name, created_at, updated_at) values
  ('tpl_base', 'Host default', now(), now()),
  ('tpl_ubuntu', 'Ubuntu', now(), now()),
  ('tpl_pytorch', 'PyTorch', now(), now()),
  ('tpl_jupyter', 'Jupyter', now(), now()),
  ('tpl_vllm', 'vLLM', now(), now()),
  ('tpl_comfyui', 'ComfyUI', now(), now());
insert into template_version (template_id, version, body, created_at) values
  ('tpl_base', 1, '{"icon": "box", "summary": "The image that the host has already: starts without a registry.",
    "readme": "Starts at once, also on hosts without internet access. Log in with SSH."}', now()),
  ('tpl_ubuntu', 1, '{"icon": "terminal", "summary": "Plain Ubuntu 24.04 with SSH.", "image": {"name": "ubuntu", "tag": "24.04"},
    "args": ["sleep", "infinity"], "readme": "Log in with SSH and install what you need. The disk is kept while the rental is stopped."}', now()),
  ('tpl_pytorch', 1, '{"icon": "flame", "summary": "PyTorch with CUDA, and SSH.",
    "image": {"name": "pytorch/pytorch", "tag": "2.7.1-cuda12.8-cudnn9-runtime"}, "args": ["sleep", "infinity"], "diskGb": 60,
    "minVramGb": 8, "readme": "Log in with SSH and run `python -c \"import torch; print(torch.cuda.is_available())\"`. Data loaders with many workers use shared memory: half of the memory by default, or set `shmGb`."}', now()),
  ('tpl_jupyter', 1, '{"icon": "notebook", "summary": "JupyterLab with PyTorch, opened in the browser.",
    "image": {"name": "jupyter/pytorch-notebook", "tag": "cuda12-latest"},
    "args": ["start-notebook.py", "--IdentityProvider.token=", "--ServerApp.allow_remote_access=True"],
    "ports": [{"port": 8888, "protocol": "http", "healthPath": "/api"}], "diskGb": 60, "minVramGb": 8,
    "readme": "Open port 8888 from the rental page. Access is protected by Berth, so Jupyter asks for no token. Do not make the port public."}', now()),
  ('tpl_vllm', 1, '{"icon": "message", "summary": "Serve a language model with an OpenAI-compatible API.",
    "image": {"name": "vllm/vllm-openai", "tag": "latest"}, "args": ["--model", "Qwen/Qwen2.5-7B-Instruct"],
    "ports": [{"port": 8000, "protocol": "http", "healthPath": "/health"}], "diskGb": 100, "shmGb": 2, "minVramGb": 16,
    "params": [{"name": "HUGGING_FACE_HUB_TOKEN", "description": "Access token, for gated models", "secret": true, "required": false}],
    "readme": "Set `args` to choose another model. The first start downloads the weights; port 8000 is ready when its health check passes."}', now()),
  ('tpl_comfyui', 1, '{"icon": "image", "summary": "ComfyUI for image workflows, opened in the browser.",
    "image": {"name": "yanwk/comfyui-boot", "tag": "cu128-slim"},
    "ports": [{"port": 8188, "protocol": "http", "healthPath": "/system_stats"}], "diskGb": 100, "minVramGb": 6,
    "readme": "Open port 8188 from the rental page."}', now());

-- One of them has a page to open in the browser and needs no registry: it runs in whatever image the host has.
insert into template (id, name, created_at, updated_at) values ('tpl_page', 'Web page', now(), now());
insert into template_version (template_id, version, body, created_at)
select 'tpl_page', 1, jsonb_build_object(
  'icon', 'code',
  'summary', 'A web page from the image that the host has already: needs no registry.',
  'ports', '[{"port": 8080, "protocol": "http", "healthPath": "/"}]'::jsonb,
  'onStart', $script$cd /srv 2>/dev/null || cd /root || exit 1
mkdir -p www && cd www || exit 1
if [ ! -e index.html ]; then
  {
    echo '<!doctype html><meta charset="utf-8"><title>It works</title><h1>It works</h1>'
    echo "<p>This page is <code>$PWD/index.html</code> of your machine. Replace it, or add files beside it.</p><pre>"
    { uname -srm; nvidia-smi -L; df -h .; } 2>/dev/null | sed 's/&/\&amp;/g; s/</\&lt;/g'
    echo '</pre>'
  } > index.html
fi
# The first web server that the image has. Perl answers every path with the page.
serve() {
  if busybox --list 2>/dev/null | grep -qx httpd; then exec busybox httpd -f -p 8080 -h .; fi
  if command -v python3 >/dev/null; then exec python3 -m http.server 8080; fi
  exec perl -MIO::Socket::INET -e '
    my $server = IO::Socket::INET->new(LocalPort => 8080, Listen => 64, ReuseAddr => 1) or die "port 8080: $!\n";
    while (my $client = $server->accept) {
      while (defined(my $line = <$client>)) { last if $line =~ /^\r?$/ }
      open(my $page, "<", "index.html") or next;
      local $/; my $text = <$page>;
      print $client "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: ", length($text), "\r\n\r\n", $text;
      close $client;
    }'
}
(trap '' HUP; serve) < /dev/null > /tmp/web-page.log 2>&1 &
echo "serving $PWD on port 8080"
$script$,
  'readme', 'Starts at once, also on hosts without internet access. Open port 8080 from the rental page: it shows the files in `/srv/www`. Log in with SSH to put your own there.'
), now();
