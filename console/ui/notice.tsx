/** A note that is not an error. */
import type { ReactNode } from 'react'
import { cx } from './class.ts'

const looks = {
  warn: 'border-warn bg-warn-soft',
  info: 'border-info bg-info-soft',
} as const

export function Notice({ tone = 'info', children }: { tone?: keyof typeof looks; children: ReactNode }) {
  return (
    <div role="note" className={cx('rounded-md border px-3 py-2 text-sm text-ink', looks[tone])}>
      {children}
    </div>
  )
}
