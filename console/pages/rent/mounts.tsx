/** Volumes of an order: which ones, where they are mounted, and whether they can be written to. */
import { limits } from '../../../src/base/limits.ts'
import { number } from '../../../src/view/number.ts'
import { isUsableAt, whyNotOrder, type OrderPlace, type Volume } from '../../../src/view/volume.ts'
import { useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { optionalNumber } from '../../form/read.ts'
import type { Form } from '../../form/use-form.ts'
import { Button, TextLink } from '../../ui/button.tsx'
import { CheckField, SelectField, TextField } from '../../ui/field.tsx'
import { Icon } from '../../ui/icon.tsx'

interface TypedMount {
  /** Identifies a row. */
  readonly key: number
  readonly volumeId: string
  readonly path: string
  readonly readOnly: boolean
}

export const noMounts = { mounts: [] as readonly TypedMount[] }
type Mounts = typeof noMounts

/** The path of the mounts in the body. */
export const mountPaths = { mounts: 'volumes' } as const

export function volumesOf({ mounts }: Mounts) {
  if (mounts.length === 0) return undefined
  return mounts.map(({ volumeId, path, readOnly }) => ({
    volumeId: optionalNumber(volumeId) ?? Number.NaN,
    path: path.trim(),
    readOnly,
  }))
}

export function mountsOf(
  volumes: ReadonlyArray<{ readonly volumeId: number; readonly path: string; readonly readOnly?: boolean | undefined }>,
): Mounts {
  return {
    mounts: volumes.map(({ volumeId, path, readOnly = false }, key) => ({
      key,
      volumeId: String(volumeId),
      path,
      readOnly,
    })),
  }
}

/** Read when the page opens, so that nothing moves when a form opens. */
export function useOwnVolumes() {
  return useCall('listVolumes', undefined, { enabled: useMay('compute:read') })
}

interface MountFieldsProps {
  readonly place: OrderPlace
  readonly form: Pick<Form<Mounts>, 'values' | 'set' | 'errorAt'>
}

export function MountFields({ place, form }: MountFieldsProps) {
  const all = useOwnVolumes().data ?? []
  const usable = all.filter((volume) => isUsableAt(volume, place))
  const { mounts } = form.values
  const free = usable.filter(
    (volume) =>
      whyNotOrder(volume, { kind: place.kind, readOnly: false }) === undefined &&
      !mounts.some(({ volumeId }) => volumeId === String(volume.id)),
  )
  const [next = usable[0]] = free
  const change = (key: number, changed: Partial<TypedMount>): void =>
    form.set({ mounts: mounts.map((one) => (one.key === key ? { ...one, ...changed } : one)) })
  const add = (volume: Volume): void =>
    form.set({
      mounts: [
        ...mounts,
        {
          key: 1 + Math.max(-1, ...mounts.map(({ key }) => key)),
          volumeId: String(volume.id),
          path: defaultPath(volume),
          readOnly: false,
        },
      ],
    })
  return (
    <fieldset className="flex flex-col gap-3">
      <legend className="mb-1 text-sm font-medium">Volumes</legend>
      {mounts.map((mount, index) => (
        <MountRow
          key={mount.key}
          mount={mount}
          index={index}
          all={all}
          usable={usable}
          place={place}
          errorAt={form.errorAt}
          onChange={(changed) => change(mount.key, changed)}
          onRemove={() => form.set({ mounts: mounts.filter(({ key }) => key !== mount.key) })}
        />
      ))}
      <div className="flex min-h-9 flex-wrap items-center gap-x-3 gap-y-1 text-sm text-muted">
        {next !== undefined && mounts.length < limits.volumesPerRental && (
          <Button onClick={() => add(next)}>
            <Icon name="disk" />
            {mounts.length === 0 ? 'Add a volume' : 'Add another volume'}
          </Button>
        )}
        {mounts.length === 0 &&
          (next === undefined ? <NoVolume place={place} /> : 'Data on a volume outlives the machine.')}
      </div>
    </fieldset>
  )
}

function NoVolume({ place: { region, machine } }: { place: OrderPlace }) {
  const search = { create: true, region, ...(machine === undefined ? {} : { machine: machine.id }) }
  return (
    <p>
      You have no volume {machine === undefined ? `in ${region}` : 'for this machine'}.{' '}
      <TextLink to="/volumes" search={search}>
        Create one
      </TextLink>{' '}
      to keep data when the machine ends.
    </p>
  )
}

interface MountRowProps extends Pick<MountFieldsProps, 'place'>, Pick<Form<Mounts>, 'errorAt'> {
  readonly mount: TypedMount
  readonly index: number
  readonly all: readonly Volume[]
  readonly usable: readonly Volume[]
  readonly onChange: (changed: Partial<TypedMount>) => void
  readonly onRemove: () => void
}

function MountRow({ mount, index, all, usable, place, errorAt, onChange, onRemove }: MountRowProps) {
  const { volumeId, path, readOnly } = mount
  const chosen = all.find(({ id }) => String(id) === volumeId)
  // A volume that was chosen before stays in the list, with the reason why it does not fit.
  const volumes = chosen === undefined || usable.includes(chosen) ? usable : [chosen, ...usable]
  const choices = volumes.map((volume) => {
    const why = usable.includes(volume)
      ? whyNotOrder(volume, { kind: place.kind, readOnly })
      : 'not usable on this machine'
    const about = `${volume.label}, ${number(volume.sizeGb)} GB`
    return {
      value: String(volume.id),
      label: why === undefined ? about : `${about} (${why})`,
      disabled: why !== undefined && volume !== chosen,
    }
  })
  const choose = (id: string): void => {
    const [before, after] = [chosen, all.find((one) => String(one.id) === id)]
    const isDefault = path === '' || (before !== undefined && path === defaultPath(before))
    onChange({ volumeId: id, ...(isDefault && after !== undefined ? { path: defaultPath(after) } : {}) })
  }
  const nth = index === 0 ? '' : ` ${index + 1}`
  return (
    <div className="grid items-start gap-3 rounded-md border border-line p-3 sm:grid-cols-[minmax(0,1fr)_minmax(0,1fr)_auto]">
      <SelectField
        label={`Volume${nth}`}
        choices={
          chosen === undefined ? [{ value: volumeId, label: `Volume ${volumeId} (deleted)` }, ...choices] : choices
        }
        value={volumeId}
        onChange={(event) => choose(event.target.value)}
        error={errorAt(`volumes.${index}.volumeId`)}
      />
      <TextField
        label={`Mount path${nth}`}
        placeholder="/data"
        spellCheck={false}
        value={path}
        onChange={(event) => onChange({ path: event.target.value })}
        error={errorAt(`volumes.${index}.path`)}
      />
      <div className="flex items-center gap-3 sm:pt-6">
        <CheckField
          label="Read-only"
          checked={readOnly}
          onChange={(event) => onChange({ readOnly: event.target.checked })}
        />
        <Button look="quiet" aria-label={`Remove volume ${chosen?.label ?? volumeId}`} onClick={onRemove}>
          <Icon name="trash" />
        </Button>
      </div>
    </div>
  )
}

function defaultPath({ label }: Volume): string {
  return `/mnt/${label}`
}
