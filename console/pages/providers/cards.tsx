/** A card for each cloud that can be added. */
import type { ProviderKind } from '../provider/credentials.tsx'

interface CloudCardsProps {
  readonly kinds: readonly ProviderKind[]
  readonly onChoose: (kind: ProviderKind) => void
}

export function CloudCards({ kinds, onChoose }: CloudCardsProps) {
  return (
    <ul className="grid grid-cols-1 gap-3 min-[26rem]:grid-cols-2 lg:grid-cols-3">
      {kinds.map((kind) => (
        <li key={kind.provider} className="flex">
          <button
            type="button"
            onClick={() => onChoose(kind)}
            className="flex w-full items-center gap-3 rounded-lg border border-line bg-surface p-4 text-left hover:border-line-strong hover:bg-sunken"
          >
            <span
              aria-hidden="true"
              className="flex size-10 shrink-0 items-center justify-center rounded-md bg-accent-soft text-sm font-semibold text-accent"
            >
              {initials(kind.title)}
            </span>
            <span className="flex min-w-0 flex-col">
              <span className="font-medium">
                <span className="sr-only">Add an account at </span>
                {kind.title}
              </span>
              <span className="text-xs text-muted">{billingText(kind)}</span>
            </span>
          </button>
        </li>
      ))}
    </ul>
  )
}

function initials(title: string): string {
  const words = title.split(/[\s.]+/).filter((word) => word !== '')
  return words.length > 1
    ? words
        .map((word) => word.charAt(0))
        .slice(0, 2)
        .join('')
    : title.slice(0, 2)
}

/** `Billed by the minute, from the order` */
function billingText({ billing }: ProviderKind): string {
  const { from, incrementSeconds: step } = billing
  const by = step >= 3_600 ? 'hour' : step >= 60 ? 'minute' : 'second'
  return `Billed by the ${by}, from ${from === 'create' ? 'the order' : 'the start'}`
}
