/** A link to a rental by its label. */
import type { RentalName } from '../../../src/contract/billing.ts'
import { TextLink } from '../../ui/button.tsx'

export function RentalLink({ id, rental }: { id: string; rental: RentalName | null }) {
  const text = rental?.label ?? rental?.name ?? `Rental ${id}`
  return (
    <>
      <TextLink to="/rentals/$id" params={{ id }}>
        {text}
      </TextLink>
      {rental !== null && <span className="text-muted"> {otherName(rental, text)}</span>}
    </>
  )
}

function otherName({ name, label }: RentalName, text: string): string {
  return [label, name].find((one) => one !== null && one !== text) ?? ''
}
