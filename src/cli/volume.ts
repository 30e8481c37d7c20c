/** `berth volumes`: storage that outlives machines. A volume is named by its id or its label. */
import { exactMoney } from '../view/money.ts'
import { number } from '../view/number.ts'
import { formatUsdForPeople, nanoUsdOf, parseUsd, usdFromNumber, zeroUsd } from '../base/money.ts'
import type { Client, Reply } from '../client/client.ts'
import { parserOf } from './flag.ts'
import { fieldOf } from './operation-field.ts'
import { listOwn, NAME_HELP, pickOwn } from './own-machine.ts'
import { act, list } from './row.ts'
import type { Cell } from './screen.ts'
import { CliError, exitCodes } from './shell.ts'
import { targetOf } from './target.ts'
import type { Call, Row } from './row-type.ts'

type Volume = Reply<'listVolumes'>[number]
type StorageOption = Reply<'listStorageOptions'>[number]

const sizeField = fieldOf('createVolume', 'sizeInGb')
const STEP_GB = sizeField.step ?? 1

const volume = {
  ...targetOf<Volume>({
    noun: 'volume',
    arg: 'volume',
    named: 'label',
    list: 'berth volumes ls',
    read: (client) => client.call('listVolumes'),
    idOf: (one) => one.id,
    nameOf: (one) => one.label,
  }),
  field: 'storageVolumeId',
}

export const rows: readonly Row[] = [
  list({
    command: 'volumes ls',
    operation: 'listVolumes',
    description: 'list storage volumes',
    noun: 'volume',
    empty: ['There are no volumes.', 'To create one: berth volumes create LABEL --size 256 --region REGION'],
    columns: [
      { title: 'ID', right: true, of: (one) => String(one.id) },
      { title: 'LABEL', shrink: true, of: (one) => one.label },
      { title: 'GB', right: true, of: (one) => String(one.sizeGb) },
      { title: 'STATUS', of: ({ status }) => ({ text: status, style: status === 'active' ? 'green' : 'yellow' }) },
      { title: 'REGION', of: (one) => one.region },
      { title: '$/HR', right: true, of: (one) => formatUsdForPeople(usdFromNumber(one.costPerHour) ?? zeroUsd) },
      { title: 'ATTACHED TO', shrink: true, of: (one) => one.attachedRentals.join(', ') },
    ],
    examples: ['berth volumes ls'],
  }),
  list<'listStorageOptions', undefined, number, { size: number }>({
    command: 'volumes prices',
    operation: 'listStorageOptions',
    description: 'list regions and prices for volumes',
    options: [
      {
        flag: '--size <gb>',
        help: `size to price, in steps of ${STEP_GB} GB`,
        parse: parserOf(sizeField),
        default: STEP_GB,
      },
    ],
    noun: 'region',
    empty: ['No region sells volumes: none has a price.', 'Ask the operator.'],
    read: async ({ options }) => options.size,
    columns: [
      { title: 'REGION', of: (one) => one.region },
      { title: '$/GB-HR', right: true, of: (one) => exactMoney(one.costPerGbHourUsd) },
      {
        title: '$/HR',
        right: true,
        of: (one, sizeGb) =>
          formatUsdForPeople(nanoUsdOf((parseUsd(one.costPerGbHourUsd) ?? zeroUsd) * BigInt(sizeGb))),
      },
      { title: 'AVAILABLE (GB)', right: true, of: availableCell },
    ],
    hint: (_, { options }) => `$/HR is for ${options.size} GB. To create one: berth volumes create --help`,
    examples: ['berth volumes prices --size 1024'],
  }),
  act<'createVolume', { attach?: string[] }>({
    command: 'volumes create',
    operation: 'createVolume',
    description: 'create a storage volume',
    args: [{ name: '<label>', help: 'label: at least 4 letters, digits, - or _', field: 'label' }],
    flags: {
      sizeInGb: { flag: '--size <gb>', help: `size, in steps of ${STEP_GB} GB` },
      region: { help: 'region, as shown by berth volumes prices' },
      rentalIds: false,
    },
    options: [{ flag: '--attach <name...>', help: 'attach it to these machines; the first one hosts the disk' }],
    prepare: async ({ client, input, options }) => {
      if (options.attach === undefined) return input
      const rentalIds = await rentalIdsOf(client, options.attach)
      return { ...input, parts: { body: { ...input.parts.body, rentalIds } } }
    },
    done: (made) => [
      `Creating ${made.label}: volume ${made.storageVolumeId}, ${made.sizeInGb} GB in ${made.region}.`,
      'To see when it is active: berth volumes ls',
    ],
    examples: ['berth volumes create datasets --size 512 --region us-central-1'],
  }),
  act({
    command: 'volumes attach',
    operation: 'attachVolume',
    target: volume,
    description: 'attach a volume to machines (all or none)',
    args: [{ name: '<name...>', help: NAME_HELP, field: 'rentalIds', parse: (text) => text }],
    prepare: withRentalIds,
    done: (reply, { found }) => `Attaching ${found.label} to ${rentals(reply.attachedRentalIds)}.`,
    examples: ['berth volumes attach datasets node-a'],
  }),
  act({
    command: 'volumes detach',
    operation: 'detachVolume',
    target: volume,
    description: 'detach a volume from machines',
    args: [{ name: '[name...]', help: `${NAME_HELP}; default: all`, field: 'rentalIds', parse: (text) => text }],
    prepare: withRentalIds,
    done: ({ attachedRentalIds: rest }, { found }) =>
      `Detaching ${found.label}${rest.length === 0 ? '' : `; it stays attached to ${rentals(rest)}`}.`,
    examples: ['berth volumes detach datasets', 'berth volumes detach datasets node-a'],
  }),
  act({
    command: 'volumes rm',
    operation: 'terminateVolume',
    target: volume,
    description: 'delete a volume and its data; asks first',
    confirm: ({ found }) => `Delete ${found.label} (${found.sizeGb} GB) and all its data?`,
    done: (_, { found }) => `Deleting ${found.label}. It costs nothing from now on.`,
    examples: ['berth volumes rm datasets'],
  }),
]

/** The largest volume that can be created now. */
function availableCell({ enabled, availableGb }: StorageOption, sizeGb: number): Cell {
  if (!enabled) return { text: 'disabled', style: 'yellow' }
  if (availableGb === null) return 'unknown'
  return availableGb < sizeGb ? { text: number(availableGb), style: 'yellow' } : number(availableGb)
}

async function withRentalIds({ client, input, args }: Call<unknown, Volume>): Promise<Call['input']> {
  const names = (args[1] ?? []) as string[]
  const { rentalIds: _, ...body } = input.parts.body ?? {}
  return { parts: { body: names.length === 0 ? body : { ...body, rentalIds: await rentalIdsOf(client, names) } } }
}

/** Volumes know rentals by their ids. */
async function rentalIdsOf(client: Client, names: readonly string[]): Promise<number[]> {
  const machines = await listOwn(client)
  return names.map((wanted) => {
    const { kind, id, name } = pickOwn(machines, wanted)
    if (kind !== 'container') return Number.parseInt(id, 10)
    throw new CliError(exitCodes.failed, `${name} is a container, and volumes cannot be attached to containers.`)
  })
}

function rentals(ids: readonly number[]): string {
  return `${ids.length === 1 ? 'rental' : 'rentals'} ${ids.join(', ')}`
}
