/** A link to a rental by its label. Containers are addressed by name. */
import type { RentalName } from '../../../src/contract/billing.ts'
import { TextLink } from '../../ui/button.tsx'

export function RentalLink({ id, rental }: { id: string; rental: RentalName | null }) {
  const text = rental?.label ?? rental?.name ?? `Rental ${id}`
  return (
    <>
      {rental?.kind === 'container' && rental.name !== null ? (
        <TextLink to="/rentals/containers/$id" params={{ id: rental.name }}>
          {text}
        </TextLink>
      ) : (
        <TextLink to="/rentals/$id" params={{ id }}>
          {text}
        </TextLink>
      )}
      {rental !== null && <span className="text-muted"> {otherName(rental, text)}</span>}
    </>
  )
}

function otherName({ name, label }: RentalName, shown: string): string {
  return [label, name].find((one) => one !== null && one !== shown) ?? ''
}
