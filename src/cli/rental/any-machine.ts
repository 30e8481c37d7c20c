/** Finds machines that may have ended, by id, name or label. */
import { limits } from '../../base/limits.ts'
import type { Client } from '../../client/client.ts'
import { ApiError } from '../../client/error.ts'
import type { EventRecord } from '../../contract/event.ts'
import type { RentalKind } from '../../domain/rental.ts'
import { shortRentalKinds } from '../../view/rental.ts'
import type { OwnMachine } from '../../view/own-machine.ts'
import { listOwn, matchOwn, NAME_HELP, noMachine } from './own-machine.ts'
import type { Target } from '../kit/row-type.ts'

/** Pages of the events that are searched for a label. */
const MAX_PAGES = 20

export interface AnyMachine {
  readonly kind: RentalKind
  /** The number of a rental; of a living container, its name. */
  readonly id: string
  readonly name: string
  /** undefined: it has ended, or is about to. */
  readonly living: OwnMachine | undefined
}

/** The machine that the first argument names, also an ended one. */
export const anyMachine: Target<AnyMachine> = {
  arg: 'name',
  help: `${NAME_HELP}; also of an ended one`,
  find: findAny,
  idOf: ({ id }) => id,
}

/** By id, name or label. Living machines come first, then the one that ended last. */
export async function findAny(client: Client, wanted: string): Promise<AnyMachine> {
  const machines = await listOwn(client)
  const living = matchOwn(machines, wanted)
  if (living !== undefined) return { ...living, living }
  const known = (await findByIdOrName(client, wanted)) ?? (await findEndedByLabel(client, wanted))
  if (known === undefined) throw noMachine(wanted)
  // The list has containers without their number.
  return { ...known, living: machines.find(({ name }) => name === known.name) }
}

type Named = Pick<AnyMachine, 'id' | 'kind' | 'name'> & { readonly label: string | undefined }

async function findByIdOrName(client: Client, wanted: string): Promise<Named | undefined> {
  try {
    const { id, kind, name, label } = await client.call('getAnyRental', { params: { id: wanted } })
    return { id: String(id), kind, name, label: label ?? undefined }
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return undefined
    throw error
  }
}

/** The events keep the label that a rental had when it ended. */
async function findEndedByLabel(client: Client, wanted: string): Promise<Named | undefined> {
  let cursor: string | undefined
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const query = {
      type: 'rental.terminating' as const,
      limit: limits.pageRows,
      ...(cursor === undefined ? {} : { cursor }),
    }
    const { events, nextCursor } = await client.call('listEvents', { query })
    const found = events.map(namedIn).find(({ label }) => label === wanted)
    if (found !== undefined || nextCursor === null) return found
    cursor = nextCursor
  }
  return undefined
}

/** The rental that an event is about. */
export function namedIn({ subject, data }: EventRecord): Named {
  const { kind, name, label } = data
  return {
    id: subject.id,
    kind: typeof kind === 'string' && Object.hasOwn(shortRentalKinds, kind) ? (kind as RentalKind) : 'virtual-machine',
    name: typeof name === 'string' ? name : subject.id,
    label: typeof label === 'string' && label !== '' ? label : undefined,
  }
}
