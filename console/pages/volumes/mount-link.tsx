/** A rental that uses a volume, and where it is mounted there. */
import { rentalNameOf, type Mounted } from '../../../src/view/volume.ts'
import { TextLink } from '../../ui/button.tsx'

export function MountLink({ mount }: { mount: Mounted }) {
  const { path, readOnly } = mount
  return (
    <>
      <RentalLink mount={mount} />
      {(path !== null || readOnly) && (
        <span className="block text-xs text-muted">
          {path !== null && <span className="font-mono">{path}</span>}
          {readOnly && `${path === null ? '' : ', '}read-only`}
        </span>
      )}
    </>
  )
}

export function RentalLink({ mount }: { mount: Mounted }) {
  return (
    <TextLink to="/rentals/$id" params={{ id: String(mount.rentalId) }}>
      {rentalNameOf(mount)}
    </TextLink>
  )
}
