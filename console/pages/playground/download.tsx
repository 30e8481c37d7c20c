/** A file that this page has made, to keep. It looks like a button and is a link, as downloads are. */
export function DownloadLink({ href, file }: { href: string; file: string }) {
  return (
    <a
      href={href}
      download={file}
      className="inline-flex min-h-9 items-center justify-center rounded-md border border-line-strong bg-surface px-3 py-1.5 text-sm font-medium text-ink hover:bg-sunken"
    >
      Download
    </a>
  )
}
