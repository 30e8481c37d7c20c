/** `berth volumes`: storage that outlives machines. A volume is named by its id or its label. */
import { formatUsdForPeople, nanoUsdOf, parseUsd, usdFromNumber, zeroUsd } from '../base/money.ts'
import type { Client, Reply } from '../client/client.ts'
import { exactMoney } from '../view/money.ts'
import { number } from '../view/number.ts'
import { volumeLabels, volumeState } from '../view/volume.ts'
import { parserOf } from './flag.ts'
import { fieldOf } from './operation-field.ts'
import { listOwn, NAME_HELP, ownMachine, pickOwn } from './own-machine.ts'
import { act, list, withBody } from './row.ts'
import { toned, type Cell } from './screen.ts'
import { CliError, exitCodes } from './shell.ts'
import { targetOf } from './target.ts'
import type { Call, Row } from './row-type.ts'

type Volume = Reply<'listVolumes'>[number]
type StorageOption = Reply<'listStorageOptions'>[number]

const sizeField = fieldOf('createVolume', 'sizeInGb')
const STEP_GB = sizeField.step ?? 1

const volume = {
  ...targetOf('volume', 'berth volumes ls', {
    read: (client) => client.call('listVolumes'),
    id: 'id',
    name: 'label',
  }),
  idOf: ({ id }: Volume) => id,
  field: 'storageVolumeId',
}

export const rows: readonly Row[] = [
  list('volumes ls', 'listVolumes', 'list storage volumes', {
    noun: 'volume',
    columns: [
      'id',
      'label',
      'sizeGb:GB',
      {
        STATUS: (one) => {
          const state = volumeState(one)
          return toned(volumeLabels[state].tone, state)
        },
      },
      'region',
      { '$/HR': (one) => formatUsdForPeople(usdFromNumber(one.costPerHour) ?? zeroUsd) },
      'attachedRentals:ATTACHED TO',
    ],
    empty: 'To create one: berth volumes create LABEL --size 256 --region REGION',
  }),
  list<'listStorageOptions', number, { size: number }>(
    'volumes prices',
    'listStorageOptions',
    'list regions and prices for volumes',
    {
      options: {
        '--size <gb>': {
          help: `size to price, in steps of ${STEP_GB} GB`,
          parse: parserOf(sizeField),
          default: STEP_GB,
        },
      },
      noun: 'region',
      empty: ['No region sells volumes: none has a price.', 'Ask the operator.'],
      read: async ({ options }) => options.size,
      columns: [
        'region',
        {
          '$/GB-HR': (one) => exactMoney(one.costPerGbHourUsd),
          '$/HR': (one, sizeGb) =>
            formatUsdForPeople(nanoUsdOf((parseUsd(one.costPerGbHourUsd) ?? zeroUsd) * BigInt(sizeGb))),
          'AVAILABLE (GB)': availableCell,
        },
      ],
      hint: (_, { options }) => `$/HR is for ${options.size} GB. To create one: berth volumes create --help`,
      examples: ['berth volumes prices --size 1024'],
    },
  ),
  act<'createVolume', { attach?: string[] }>('volumes create', 'createVolume', 'create a storage volume', {
    args: { '<label>': 'label: at least 4 letters, digits, - or _' },
    flags: {
      sizeInGb: `--size <gb>  size, in steps of ${STEP_GB} GB`,
      region: 'region, as shown by berth volumes prices',
      rentalIds: false,
    },
    options: { '--attach <name...>': 'attach it to these machines; the first one hosts the disk' },
    examples: ['berth volumes create datasets --size 512 --region us-central-1'],
    prepare: async ({ client, input, options: { attach } }) =>
      attach === undefined ? input : withBody(input, { rentalIds: await rentalIdsOf(client, attach) }),
    done: (made) => [
      `Creating ${made.label}: volume ${made.storageVolumeId}, ${made.sizeInGb} GB in ${made.region}.`,
      'To see when it is active: berth volumes ls',
    ],
  }),
  act('volumes attach', 'attachVolume', 'attach a volume to machines (all or none)', {
    target: volume,
    args: { '<name...>': { help: NAME_HELP, field: 'rentalIds', parse: (text) => text } },
    examples: ['berth volumes attach datasets node-a'],
    prepare: withRentalIds,
    done: (reply, { found }) => `Attaching ${found.label} to ${rentals(reply.attachedRentalIds)}.`,
  }),
  act('volumes detach', 'detachVolume', 'detach a volume from machines', {
    target: volume,
    args: { '[name...]': { help: `${NAME_HELP}; default: all`, field: 'rentalIds', parse: (text) => text } },
    examples: ['berth volumes detach datasets', 'berth volumes detach datasets node-a'],
    prepare: withRentalIds,
    done: ({ attachedRentalIds: rest }, { found }) =>
      `Detaching ${found.label}${rest.length === 0 ? '' : `; it stays attached to ${rentals(rest)}`}.`,
  }),
  act('volumes grow', 'growVolume', 'make a volume larger; its price follows its size', {
    target: { ...volume, field: 'id' },
    args: { '<gb>': { help: `new size, in steps of ${STEP_GB} GB`, field: 'sizeInGb' } },
    examples: ['berth volumes grow datasets 1024'],
    done: ({ growingToGb }, { found }) => `Growing ${found.label} to ${growingToGb} GB.`,
  }),
  act('volumes clone', 'cloneVolume', 'copy a volume; the copy costs the same', {
    target: { ...volume, field: 'id' },
    args: { '<label>': 'label of the copy' },
    examples: ['berth volumes clone datasets datasets-2'],
    done: ({ storageVolumeId, label }) => `Copying to ${label}: volume ${storageVolumeId}.`,
  }),
  list('volumes of', 'listRentalVolumes', 'list the volumes of one machine, and where they are mounted', {
    target: ownMachine,
    noun: 'volume',
    columns: ['storageVolumeId:ID', 'label', 'sizeInGb:GB', 'path', 'readOnly', 'state'],
    examples: ['berth volumes of web'],
  }),
  act('volumes mount', 'attachRentalVolume', 'mount a volume in a machine', {
    target: ownMachine,
    args: { '<id>': { help: 'id of the volume', field: 'storageVolumeId' } },
    flags: { path: 'where to mount it', readOnly: 'without write access' },
    examples: ['berth volumes mount box 3 --path /data'],
    done: (_, { found }) => `Attaching it to ${found.name}.`,
  }),
  act('volumes unmount', 'detachRentalVolume', 'remove a volume from a machine', {
    target: { ...ownMachine, field: 'id' },
    args: { '<volume>': { help: 'id of the volume', field: 'storageVolumeId' } },
    examples: ['berth volumes unmount box 3'],
    done: (_, { found }) => `Detaching it from ${found.name}.`,
  }),
  act('volumes rm', 'terminateVolume', 'delete a volume and its data; asks first', {
    target: volume,
    examples: ['berth volumes rm datasets'],
    confirm: ({ found }) => `Delete ${found.label} (${found.sizeGb} GB) and all its data?`,
    done: (_, { found }) => `Deleting ${found.label}. It costs nothing from now on.`,
  }),
]

/** The largest volume that can be created now. */
function availableCell({ enabled, availableGb }: StorageOption, sizeGb: number): Cell {
  if (!enabled) return toned('warn', 'disabled')
  if (availableGb === null) return 'unknown'
  return availableGb < sizeGb ? toned('warn', number(availableGb)) : number(availableGb)
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
