/** Cards, statistics and lists of facts. */
import { useId, type ReactNode } from 'react'
import { cx } from './class.ts'
import { SkeletonText } from './skeleton.tsx'

interface CardProps {
  readonly title?: string
  readonly actions?: ReactNode
  readonly className?: string | undefined
  readonly children: ReactNode
}

export function Card({ title, actions, className, children }: CardProps) {
  const id = useId()
  return (
    <section
      aria-labelledby={title === undefined ? undefined : id}
      className={cx('min-w-0 rounded-lg border border-line bg-surface p-4', className)}
    >
      {title !== undefined && (
        <div className="not-only:mb-3 flex flex-wrap items-center justify-between gap-2">
          <h2 id={id} className="text-base font-semibold">
            {title}
          </h2>
          {actions}
        </div>
      )}
      {children}
    </section>
  )
}

interface StatProps {
  readonly label: string
  readonly value: ReactNode
  readonly detail?: ReactNode
}

/** Inside a `<Stats>`. */
export function Stat({ label, value, detail }: StatProps) {
  return (
    <div className="min-w-0 rounded-lg border border-line bg-surface p-3 sm:p-4">
      <dt className="text-sm text-muted">{label}</dt>
      <dd className="mt-1 text-xl font-semibold break-words tabular-nums sm:text-2xl">{value}</dd>
      {detail !== undefined && <dd className="mt-0.5 min-h-5 text-sm text-muted">{detail}</dd>}
    </div>
  )
}

/** `[label, value, detail]`. A value that is undefined is still loading. */
type StatEntry = readonly [label: string, value: ReactNode, detail?: ReactNode]

export function Stats({ stats = [], children }: { stats?: readonly StatEntry[]; children?: ReactNode }) {
  return (
    <dl className="grid grid-cols-1 gap-3 sm:grid-cols-2 xl:grid-cols-4">
      {stats.map(([label, value, detail]) => (
        <Stat key={label} label={label} value={value ?? <SkeletonText />} detail={detail} />
      ))}
      {children}
    </dl>
  )
}

export type Fact = readonly [name: string, value: ReactNode]

/** Names and values in rows. A fact without a value is left out. */
export function Facts({ facts }: { facts: readonly Fact[] }) {
  return (
    <dl className="grid grid-cols-[minmax(7rem,auto)_1fr] gap-x-6 gap-y-2 text-sm">
      {facts
        .filter(([, value]) => value !== null && value !== undefined && value !== false)
        .map(([name, value]) => (
          <div key={name} className="contents">
            <dt className="text-muted">{name}</dt>
            <dd className="min-w-0 break-words">{value}</dd>
          </div>
        ))}
    </dl>
  )
}

/** A part of a page with a heading. */
export function Section({ title, actions, children }: { title: string; actions?: ReactNode; children: ReactNode }) {
  const id = useId()
  return (
    <section aria-labelledby={id} className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <h2 id={id} className="text-base font-semibold">
          {title}
        </h2>
        {actions}
      </div>
      {children}
    </section>
  )
}

/** A name or id of a machine, for reading and copying. */
export function Code({ text }: { text: string }) {
  return <code className="font-mono break-all">{text}</code>
}
