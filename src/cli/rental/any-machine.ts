/** Finds machines that may have ended. Those are in no list, but the events of rentals name them. */
import { limits } from '../../base/limits.ts'
import type { Client } from '../../client/client.ts'
import type { EventRecord } from '../../contract/event.ts'
import type { RentalKind } from '../../domain/rental.ts'
import { shortRentalKinds } from '../../view/rental.ts'
import type { OwnMachine } from '../../view/own-machine.ts'
import { listOwn, matchOwn, NAME_HELP, noMachine } from './own-machine.ts'
import type { Target } from '../kit/row-type.ts'

/** Pages of the events that are searched for a name or label. */
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
  const known = (await findById(client, wanted)) ?? (await findEnded(client, wanted))
  if (known === undefined) throw noMachine(wanted)
  // The list has containers without their number.
  return { ...known, living: machines.find(({ name }) => name === known.name) }
}

type Named = Pick<AnyMachine, 'id' | 'kind' | 'name'> & { readonly label: string | undefined }

async function findById(client: Client, wanted: string): Promise<Named | undefined> {
  if (!/^\d{1,9}$/.test(wanted)) return undefined
  const query = { type: 'rental.created' as const, subject: `rental:${Number.parseInt(wanted, 10)}`, limit: 1 }
  const { events } = await client.call('listEvents', { query })
  return events.map(namedIn)[0]
}

async function findEnded(client: Client, wanted: string): Promise<Named | undefined> {
  let cursor: string | undefined
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const query = {
      type: 'rental.terminating' as const,
      limit: limits.pageRows,
      ...(cursor === undefined ? {} : { cursor }),
    }
    const { events, nextCursor } = await client.call('listEvents', { query })
    const found = events.map(namedIn).find(({ name, label }) => name === wanted || label === wanted)
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
