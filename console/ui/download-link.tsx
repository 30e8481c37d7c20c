/** A download link that looks like a button. */
import type { ReactNode } from 'react'

export function DownloadLink({
  href,
  file,
  children = 'Download',
}: {
  href: string
  file: string
  children?: ReactNode
}) {
  return (
    <a
      href={href}
      download={file}
      className="inline-flex min-h-9 items-center justify-center rounded-md border border-line-strong bg-surface px-3 py-1.5 text-sm font-medium text-ink hover:bg-sunken"
    >
      {children}
    </a>
  )
}
