/** `berth operator fleet ls`, `machine`, `hosts`, `images` and `placement`: machines of all suppliers. */
import { randomUUID } from 'node:crypto'
import { InvalidArgumentError } from 'commander'
import type { CallInput, Reply } from '../../client/client.ts'
import { shortRentalKinds } from '../../view/rental.ts'
import { gpuLabel, shortGpuLabel } from '../../view/gpu.ts'
import { gpuHourPrice, money } from '../../view/money.ts'
import { count } from '../../view/number.ts'
import { historyText, orderLabels } from '../../view/provider.ts'
import { stateTone } from '../../view/tone.ts'
import { NONE } from '../kit/flag.ts'
import { hostColumns, tenants } from '../supply/host.ts'
import { readJsonFile } from '../kit/json-file.ts'
import { fieldOf } from '../kit/operation-field.ts'
import { act, custom, list } from '../kit/row.ts'
import { bold, red, toned, type Cell } from '../kit/screen.ts'
import { describeStuck, readStuck } from './stuck-rental.ts'
import { clusterRows } from './operator-cluster.ts'
import { providerRows } from './operator-provider.ts'
import type { Call, Row } from '../kit/row-type.ts'

type FleetMachine = Reply<'listFleet'>['machines'][number]

const REASON = { reason: 'reason, recorded in the audit log' }
/** Statuses without the prefix `node_` of the API. */
const statuses = ['ready', 'draining', 'cleaning', 'quarantined', 'lost']

const machineRows: readonly Row[] = [
  list<'listFleet', Reply<'listAllRentals'>>('operator fleet ls', 'listFleet', 'list machines of all suppliers', {
    flags: {
      q: 'part of the name, cluster, region, GPU or engine',
      offering: 'only this offering',
      status: { text: `only this status: ${statuses.join(', ')}`, parse: parseStatus },
    },
    unmatched: 'To list all of them: berth operator fleet ls',
    empty: [
      'There are no machines yet.',
      'They come from drivers (BERTH_DRIVERS) and from hosts. To add a host, create',
      'a join token: berth supply tokens create',
    ],
    read: ({ client }) => readStuck(client),
    columns: [
      'id:MACHINE',
      {
        STATUS: statusCell,
        GPU: ({ gpuModel }) => shortGpuLabel(gpuModel),
        USED: ({ gpusInUse, gpusTotal }) => `${gpusInUse}/${gpusTotal}`,
      },
      'gpusSick:FAULTY',
      'driver:ENGINE',
      { SUPPLIER: ({ supplierId }) => supplierId ?? 'the operator' },
    ],
    wide: [
      'offering',
      'region',
      'clusterName:CLUSTER',
      { '$/GPU-HR': ({ pricePerGpuHourUsd: price }) => (price === null ? 'book' : money(price)) },
      'seenAt',
    ],
    below: (_, __, stuck) => describeStuck(stuck),
    examples: ['berth operator fleet ls', 'berth operator fleet ls --find l40s --status draining --wide'],
  }),
  act('operator machine', 'changeMachine', 'change the supplier, price, listing or GPUs of a machine', {
    args: { '<machine>': 'name, as shown by berth operator fleet ls' },
    flags: {
      supplierId: '--supplier <account>  assign it to a supplier, or none: to the operator',
      listed: { text: '--list  put it on sale', off: '--unlist  take it off sale; rentals continue' },
      draining: {
        text: '--drain  stop accepting new tenants; current ones stay',
        off: '--resume  accept tenants again',
      },
      pricePerGpuHourUsd: '--price <usd>  price per GPU-hour for new rentals, without a supplier',
      gpusSick: {
        text: '--faulty <gpus>  all GPUs to withdraw from sale, such as 0,3; none: no GPU',
        parse: parseGpus,
      },
      ...REASON,
    },
    examples: [
      'berth operator machine rack-07 --drain --faulty 0,3 --reason "failed fan"',
      'berth operator machine rack-07 --supplier acc_ID --reason "new contract"',
      'berth operator machine rack-07 --price 1.20 --reason "new price list"',
    ],
    done: (machine) => {
      const { gpusSick, gpusWithdrawn, pricePerGpuHourUsd: price } = machine
      const byDriver = gpusSick.filter((gpu) => !gpusWithdrawn.includes(gpu))
      const faulty = gpusSick.length === 0 ? 'none' : gpusSick.join(', ')
      return [
        ['Machine', bold(machine.id)],
        ['Status', statusCell({ ...machine, listed: true })],
        ['On sale', machine.listed ? 'yes' : 'no'],
        ['Supplier', machine.supplierId ?? 'the operator'],
        ['Price', price === null ? undefined : `${money(price)} per GPU-hour`],
        ['GPUs', `${machine.gpusTotal} ${gpuLabel(machine.gpuModel)}, ${machine.gpusInUse} in use`],
        ['Faulty GPUs', byDriver.length === 0 ? faulty : `${faulty} (${byDriver.join(', ')} reported by its engine)`],
        ['Engine', machine.driver],
      ]
    },
  }),
]

function parseStatus(text: string): string {
  if (statuses.includes(text)) return `node_${text}`
  throw new InvalidArgumentError(`Allowed choices are ${statuses.join(', ')}.`)
}

function statusCell({ status, listed }: FleetMachine): Cell {
  const text = status.replace(/^node_/, '')
  return text === 'ready' && !listed ? toned('plain', 'off sale') : toned(stateTone(text), text)
}

function parseGpus(text: string): number[] {
  const { max = 0 } = fieldOf('changeMachine', 'gpusSick')
  if (text === NONE) return []
  const gpus = text.split(',').map((gpu) => (/^\d{1,2}$/.test(gpu) ? Number.parseInt(gpu, 10) : Number.NaN))
  if (gpus.every((gpu) => gpu <= max)) return gpus
  throw new InvalidArgumentError(`Must be GPU numbers from 0 to ${max}, such as 0,3, or ${NONE}.`)
}

const hostRows: readonly Row[] = [
  list('operator hosts ls', 'listHosts', 'list hosts of all suppliers and their health', {
    flags: {
      state: 'only this state',
      driver: 'only this engine: host has an agent, private-cloud is reached over SSH',
    },
    columns: hostColumns,
    empty: 'With an agent: berth supply tokens create. Over SSH: berth operator hosts create FILE.json',
  }),
  custom('operator hosts create', 'add bare-metal hosts reached over SSH', {
    operation: 'addHost',
    args: { '<file>': 'JSON: one host, or { "hosts": [ … ] } as in BERTH_INVENTORY; - reads standard input' },
    examples: ['berth operator hosts create hosts.json'],
    run: async ({ client, screen, shell, args }) => {
      const file = readJsonFile(shell, String(args[0]))
      const hosts = ('hosts' in file && Array.isArray(file['hosts']) ? file['hosts'] : [file]) as Array<
        CallInput<'addHost'>['body']
      >
      const added: Array<Reply<'addHost'>> = []
      // Hosts are added one by one: those before a faulty one stay, and the file can be used again without them.
      for (const body of hosts) added.push(await client.call('addHost', { body, idempotencyKey: randomUUID() }))
      screen.show({ hosts: added }, () =>
        added.map((host) => `Added ${host.id} (${host.state}). It is checked before it goes on sale.`),
      )
    },
  }),
  ...(
    [
      ['drain', 'drain', 'stop accepting new tenants on a host', 'new disks'],
      ['resume', 'resume', 'accept tenants on a host again', 'disks replaced'],
      ['quarantine', 'quarantine', 'take a host out of service; current tenants stay', 'failed fan'],
      ['release', 'release', 'release a host from quarantine; bare metal is cleaned first', 'fan replaced'],
      ['rm', 'remove', 'permanently remove an empty host; asks first', 'sold'],
    ] as const
  ).map(([verb, action, description, reason]) =>
    act(`operator hosts ${verb}`, 'changeHost', description, {
      args: { '<host>': 'name, as shown by berth operator hosts ls' },
      flags: REASON,
      fixed: { action },
      ...(action === 'remove' ? { confirm: ({ args }: Call) => `Permanently remove ${String(args[0])}?` } : {}),
      examples: [`berth operator hosts ${verb} calm-ivory-horse --reason "${reason}"`],
      done: (host) => `${host.id} is ${host.state}${tenants(host)}.`,
    }),
  ),
]

const imageRows: readonly Row[] = [
  list('operator images ls', 'listBaseImages', 'list images for virtual machines', {
    columns: ['name', 'arch', 'loginUser:USER', 'isDefault:DEFAULT', 'source'],
    empty: 'Virtual machines boot a small image that their host builds.',
  }),
  act('operator images create', 'addBaseImage', 'add an image for virtual machines', {
    args: { '<name>': 'name of the image' },
    flags: {
      arch: 'CPU architecture',
      source: '--source <url>  https://…, or file:/… on the hosts themselves',
      sha256: '--sha256 <hex>  SHA-256 checksum of the image',
      loginUser: '--user <name>  user to log in as',
      isDefault: '--default  use it for orders that name no image',
    },
    defaults: { arch: 'x64' },
    examples: [
      'berth operator images create debian --source file:/srv/debian.qcow2 \\',
      '    --sha256 HEX --user debian --default',
    ],
    done: (image) => `Added ${image.name}${image.isDefault ? `, the default for ${image.arch}` : ''}.`,
  }),
  act('operator images rm', 'deleteBaseImage', 'delete an image; machines started from it continue', {
    args: { '<name>': 'name, as shown by berth operator images ls' },
    examples: ['berth operator images rm debian'],
    done: (_, { args }) => `Deleted ${String(args[0])}.`,
  }),
]

const priceLabels = {
  found: 'in the price book',
  disabled: 'in the price book, disabled',
  missing: 'not in the price book',
  other_gpu_count: 'in the price book for other GPU counts only',
} as const satisfies Record<Reply<'explainPlacement'>['price'], string>

type Candidate = Reply<'explainPlacement'>['candidates'][number]

function candidateDetail({ gpusFree, gpusTotal, clusterName, ...one }: Candidate): string {
  const { costPerGpuHourUsd: cost, preference } = one
  const history = historyText(one)
  return [
    `${gpusFree} of ${gpusTotal} GPUs free in ${clusterName}`,
    ...(cost === null ? [] : [`costs ${gpuHourPrice(cost)}`]),
    ...(preference === 0 ? [] : [`preference ${preference}`]),
    ...(history === undefined ? [] : [`last hour: ${history}`]),
  ].join(', ')
}

const placementRow = act(
  'operator placement',
  'explainPlacement',
  'show where an order would be placed, or why it cannot be',
  {
    flags: {
      machineType: { text: '--kind <kind>  kind of machine', shortNames: shortRentalKinds },
      region: 'region',
      gpuType: '--gpu <type>  GPU type',
      gpuCount: '--count <n>  number of GPUs',
      networkType: '--network <type>  network between machines',
    },
    defaults: { machineType: 'virtual-machine', gpuType: 'h100', gpuCount: 1, networkType: 'ethernet' },
    examples: ['berth operator placement --gpu h200 --count 2 --region mock-region'],
    isWrong: (report) => !report.found,
    done: (report, { input }) => {
      const { gpuCount, gpuType, networkType, region, machineType } = input.parts.body as Record<string, string>
      return [
        ['Order', `${gpuCount} ${gpuType} with ${networkType} in ${region}, as ${machineType}`],
        ['Place', report.found ? toned('good', 'found') : red('none')],
        ['Price', priceLabels[report.price]],
        '',
        {
          titles: ['MACHINE', 'ENGINE', 'RESULT', 'DETAIL'],
          rows: [
            ...report.candidates.map((one) => [
              one.machineId,
              one.driver,
              one.order === 'first' ? toned('good', orderLabels.first) : orderLabels[one.order],
              candidateDetail(one),
            ]),
            ...report.rejected.map((one) => [one.machineId, one.driver, one.reason, one.detail]),
          ],
        },
        '',
        `${count(report.candidates.length, 'machine')} matching, ${report.rejectedCount} not matching`,
      ]
    },
  },
)

export const rows: readonly Row[] = [
  ...machineRows,
  ...hostRows,
  ...clusterRows,
  ...providerRows,
  ...imageRows,
  placementRow,
]
