/** Tabs with arrow-key navigation. */
import { useId, type KeyboardEvent, type ReactNode } from 'react'
import { cx } from './class.ts'

interface TabsProps<Name extends string> {
  readonly label: string
  /** Names and labels, in order. */
  readonly tabs: Readonly<Record<Name, string>>
  readonly chosen: Name
  readonly onChoose: (name: Name) => void
  /** Panel of the chosen tab. */
  readonly children: ReactNode
}

export function Tabs<Name extends string>({ label, tabs, chosen, onChoose, children }: TabsProps<Name>) {
  const id = useId()
  const names = Object.keys(tabs) as Name[]
  const move = (event: KeyboardEvent<HTMLButtonElement>): void => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
    if (step === undefined) return
    const next = names[(names.indexOf(chosen) + step + names.length) % names.length]
    if (next === undefined) return
    event.preventDefault()
    onChoose(next)
    document.getElementById(`${id}-${next}`)?.focus()
  }
  return (
    <div>
      <div role="tablist" aria-label={label} className="mb-4 flex gap-1 overflow-x-auto border-b border-line">
        {names.map((name) => (
          <button
            key={name}
            id={`${id}-${name}`}
            type="button"
            role="tab"
            aria-selected={name === chosen}
            aria-controls={`${id}-panel`}
            tabIndex={name === chosen ? 0 : -1}
            onClick={() => onChoose(name)}
            onKeyDown={move}
            className={cx(
              '-mb-px border-b-2 px-3 py-2 text-sm font-medium whitespace-nowrap',
              name === chosen ? 'border-accent text-ink' : 'border-transparent text-muted hover:text-ink',
            )}
          >
            {tabs[name]}
          </button>
        ))}
      </div>
      <div id={`${id}-panel`} role="tabpanel" aria-labelledby={`${id}-${chosen}`} tabIndex={-1}>
        {children}
      </div>
    </div>
  )
}
