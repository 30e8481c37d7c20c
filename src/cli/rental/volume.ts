/** `berth volumes`: storage that outlives machines. A volume is named by its id or its label. */
import { formatUsdForPeople, nanoUsdOf, parseUsd, usdFromNumber, zeroUsd } from '../../base/money.ts'
import type { Client, Reply } from '../../client/client.ts'
import type { RentalKind } from '../../domain/rental.ts'
import { exactMoney, hourlyPrice } from '../../view/money.ts'
import { number } from '../../view/number.ts'
import type { OwnMachine } from '../../view/own-machine.ts'
import { rentalNameOf, volumeLabels, volumeState, type Mounted } from '../../view/volume.ts'
import { parserOf } from '../kit/flag.ts'
import { fieldOf } from '../kit/operation-field.ts'
import { NAME_HELP, ownMachine } from './own-machine.ts'
import { act, list, withBody } from '../kit/row.ts'
import { toned, type Cell } from '../kit/screen.ts'
import { CliError, exitCodes } from '../kit/shell.ts'
import { targetOf } from '../kit/target.ts'
import type { Call, Row } from '../kit/row-type.ts'

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
          return one.growingToGb === null ? toned(volumeLabels[state].tone, state) : toned('info', 'growing')
        },
      },
      'region',
      {
        '$/HR': (one) => formatUsdForPeople(usdFromNumber(one.costPerHour) ?? zeroUsd),
        'ATTACHED TO': ({ mounts }) => mounts.map(rentalNameOf).join(', '),
      },
    ],
    wide: [
      {
        'USED (GB)': ({ usedGb }) => (usedGb === null ? 'unknown' : number(usedGb)),
        'MOUNTED AT': ({ mounts }) => mounts.map(mountText).join(', '),
      },
      'nodeName:MACHINE',
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
      nodeName: '--machine <name>  for containers: the machine that it is for, as shown by berth gpus ls',
    },
    options: { '--attach <name...>': 'attach it to these machines; the first one hosts the disk' },
    notes: `Machines of suppliers keep volumes on their own disk: name the machine with
--machine, and rent GPUs of the same machine later. Containers get their
volumes when they are ordered (berth rent --mount).`,
    examples: [
      'berth volumes create datasets --size 512 --region us-central-1',
      'berth volumes create models --size 256 --region eu-north-2 --machine gpu-7',
    ],
    prepare: async ({ client, input, options: { attach } }) =>
      attach === undefined ? input : withBody(input, { rentalIds: await rentalIdsOf(client, attach) }),
    done: (reply) => [
      `Creating ${reply.label}: volume ${reply.storageVolumeId}, ${reply.sizeInGb} GB in ${reply.region}.`,
      'To see when it is active: berth volumes ls',
    ],
  }),
  act('volumes attach', 'attachVolume', 'attach a volume to machines (all or none)', {
    target: volume,
    args: { '<name...>': { help: NAME_HELP, field: 'rentalIds', parse: (text) => text } },
    examples: ['berth volumes attach datasets node-a'],
    prepare: withRentalIds,
    done: (reply, { target }) => `Attaching ${target.label} to ${rentals(reply.attachedRentalIds)}.`,
  }),
  act('volumes detach', 'detachVolume', 'detach a volume from machines', {
    target: volume,
    args: { '[name...]': { help: `${NAME_HELP}; default: all`, field: 'rentalIds', parse: (text) => text } },
    examples: ['berth volumes detach datasets', 'berth volumes detach datasets node-a'],
    prepare: withRentalIds,
    done: ({ attachedRentalIds: remainingIds }, { target }) =>
      `Detaching ${target.label}${remainingIds.length === 0 ? '' : `; it stays attached to ${rentals(remainingIds)}`}.`,
  }),
  act('volumes grow', 'growVolume', 'make a volume larger; its price follows its size', {
    target: { ...volume, field: 'id' },
    args: { '<gb>': { help: `new size, in steps of ${STEP_GB} GB`, field: 'sizeInGb' } },
    notes: `A volume cannot shrink. It can stay in use; in a virtual machine the space
appears at the next boot.`,
    examples: ['berth volumes grow datasets 1024'],
    done: ({ sizeInGb, growingToGb, costPerHourUsd }, { target }) => [
      `Growing ${target.label} from ${number(sizeInGb)} to ${number(growingToGb)} GB; it then costs ${hourlyPrice(costPerHourUsd)}.`,
      'To see when it is done: berth volumes ls',
    ],
  }),
  act('volumes clone', 'cloneVolume', 'copy a volume; the copy costs the same', {
    target: { ...volume, field: 'id' },
    args: { '<label>': 'label of the copy: at least 4 letters, digits, - or _' },
    notes: 'The volume must not be attached to anything meanwhile.',
    examples: ['berth volumes clone datasets datasets-2'],
    done: ({ storageVolumeId, label, sizeInGb }, { target }) => [
      `Copying ${target.label} to ${label}: volume ${storageVolumeId}, ${number(sizeInGb)} GB.`,
      'To see when it is active: berth volumes ls',
    ],
  }),
  list<'listRentalVolumes', RentalKind, unknown, OwnMachine>(
    'volumes of',
    'listRentalVolumes',
    'list the volumes of one machine',
    {
      target: ownMachine,
      noun: 'volume',
      columns: [
        'storageVolumeId:ID',
        'label',
        'sizeInGb:GB',
        {
          'MOUNTED AT': ({ path, label }, kind) => path ?? (kind === 'bare-metal' ? `/mnt/${label}` : 'not mounted'),
          ACCESS: ({ readOnly }) => (readOnly ? 'read-only' : 'read-write'),
        },
        'state',
      ],
      read: async ({ target }) => (target as OwnMachine).kind,
      empty: 'To order a machine with one: berth rent --mount VOLUME:PATH',
      examples: ['berth volumes of web'],
    },
  ),
  act('volumes mount', 'attachRentalVolume', 'attach a volume to a machine, at a path', {
    target: volume,
    args: { '<name>': { help: NAME_HELP, field: 'id', parse: (text) => text } },
    flags: { path: 'where to mount it (default: nowhere; you mount the disk)', readOnly: 'without write access' },
    notes: `For virtual machines: the disk appears at once and is mounted from the next boot
on. Bare metal mounts volumes at /mnt/LABEL without these options.`,
    examples: ['berth volumes mount datasets box --path /data', 'berth volumes mount datasets box --read-only'],
    prepare: withMachine,
    done: (attached, { target, args }) => [
      `Attaching ${target.label} to ${String(args[1])}${attached.path === null ? '' : ` at ${attached.path}`}${attached.readOnly ? ', read-only' : ''}.`,
      `To see when it is attached: berth volumes of ${String(args[1])}`,
    ],
  }),
  act('volumes unmount', 'detachRentalVolume', 'detach a volume from one machine', {
    target: volume,
    args: { '<name>': { help: NAME_HELP, field: 'id', parse: (text) => text } },
    examples: ['berth volumes unmount datasets box'],
    prepare: withMachine,
    done: (_, { target, args }) => `Detaching ${target.label} from ${String(args[1])}. Its data stays.`,
  }),
  act('volumes rm', 'terminateVolume', 'delete a volume and its data; asks first', {
    target: volume,
    examples: ['berth volumes rm datasets'],
    confirm: ({ target }) => `Delete ${target.label} (${target.sizeGb} GB) and all its data?`,
    done: (_, { target }) => `Deleting ${target.label}. It costs nothing from now on.`,
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

/** Replaces the id, name or label of the machine by its id, which the API takes. */
async function withMachine({ client, input, args }: Call<unknown, Volume>): Promise<Call['input']> {
  const { id } = await ownMachine.find(client, String(args[1]))
  return { parts: { ...input.parts, params: { ...input.parts.params, id } } }
}

function mountText({ path, readOnly }: Mounted): string {
  return `${path ?? 'not mounted'}${readOnly ? ' (read-only)' : ''}`
}

/** Volumes know rentals by their ids. */
async function rentalIdsOf(client: Client, names: readonly string[]): Promise<number[]> {
  const machines = await Promise.all(names.map((name) => ownMachine.find(client, name)))
  const container = machines.find(({ kind }) => kind === 'container')
  if (container !== undefined) {
    throw new CliError(
      exitCodes.failed,
      `${container.name} is a container, which gets its volumes when it is ordered.`,
      ['To order one with a volume: berth rent --mount VOLUME:PATH'],
    )
  }
  return machines.map(({ id }) => Number.parseInt(id, 10))
}

function rentals(ids: readonly number[]): string {
  return `${ids.length === 1 ? 'rental' : 'rentals'} ${ids.join(', ')}`
}
