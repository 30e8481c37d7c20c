-- A starter template with a page to open in the browser that needs no registry: whatever image the host has.
insert into template (id, name, created_at, updated_at) values ('tpl_page', 'Web page', now(), now())
  on conflict (id) do nothing;
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
), now()
where exists (select 1 from template where id = 'tpl_page' and account_id is null)
on conflict do nothing;
