/** Text and code with a copy button. */
import { useEffect, useState } from 'react'
import { Button } from './button.tsx'
import { cx } from './class.ts'

const SHOWN_MS = 2_000

export function CopyButton({ text, label = 'Copy', className }: { text: string; label?: string; className?: string }) {
  const [status, setStatus] = useState<'Copied' | 'Select the text to copy it' | undefined>()
  useEffect(() => {
    if (status === undefined) return undefined
    const timer = setTimeout(() => setStatus(undefined), SHOWN_MS)
    return () => clearTimeout(timer)
  }, [status])
  const copy = (): void => {
    // Without HTTPS there is no clipboard API.
    const writing = navigator.clipboard?.writeText(text) ?? Promise.reject(new Error('no clipboard API'))
    writing.then(
      () => setStatus('Copied'),
      () => setStatus('Select the text to copy it'),
    )
  }
  return (
    <Button onClick={copy} className={cx('shrink-0', className)}>
      <span aria-live="polite">{status ?? label}</span>
    </Button>
  )
}

/** One line of text. */
export function CopyLine({ text, label }: { text: string; label: string }) {
  return (
    <div className="flex items-stretch gap-2">
      <input
        aria-label={label}
        readOnly
        value={text}
        onFocus={(event) => event.target.select()}
        className="min-w-0 flex-1 rounded-md border border-line bg-sunken px-3 py-2 font-mono text-sm"
      />
      <CopyButton text={text} />
    </div>
  )
}

export function CodeBlock({ code, label }: { code: string; label: string }) {
  return (
    <div className="flex items-start gap-2">
      <pre
        aria-label={label}
        tabIndex={0}
        role="region"
        className="max-h-96 min-w-0 flex-1 overflow-auto rounded-md border border-line bg-sunken p-3 font-mono text-sm"
      >
        {code}
      </pre>
      <CopyButton text={code} />
    </div>
  )
}
