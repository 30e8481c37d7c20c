/** A download link that looks like a button. */
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
