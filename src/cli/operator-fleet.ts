/** `berth operator fleet`, `machine`, `hosts`, `images` and `placement`: machines of all suppliers. */
import { money } from '../view/money.ts'
import { gpuLabel, shortGpuLabel } from '../view/gpu.ts'
import { count } from '../view/number.ts'
import { utcTime } from '../view/time.ts'
import { randomUUID } from 'node:crypto'
import { InvalidArgumentError } from 'commander'
import type { CallInput, Reply } from '../client/client.ts'
import { hostColumns, tenants } from './host.ts'
import { fieldOf } from './operation-field.ts'
import { readJsonFile } from './json-file.ts'
import { act, custom, list } from './row.ts'
import { fields, table, type Cell, type Style } from './screen.ts'
import { readStuck, stuckLines } from './stuck-rental.ts'
import type { Row } from './row-type.ts'

type FleetMachine = Reply<'listFleet'>['machines'][number]

const REASON = { reason: { help: 'reason, recorded in the audit log' } }
const NONE = 'none'

const statuses = {
  ready: 'green',
  draining: 'yellow',
  cleaning: 'yellow',
  quarantined: 'red',
  lost: 'red',
} as const satisfies Record<string, Style>

const machineRows: readonly Row[] = [
  list<'listFleet', 'machines', Reply<'listAllRentals'>>({
    command: 'operator fleet',
    operation: 'listFleet',
    rows: 'machines',
    description: 'list machines of all suppliers',
    flags: {
      q: { help: 'part of the name, cluster, region, GPU or engine' },
      offering: { help: 'only this offering' },
      status: { help: `only this status: ${Object.keys(statuses).join(', ')}`, parse: parseStatus },
    },
    noun: 'machine',
    empty: ({ input }) =>
      Object.keys(input.parts.query ?? {}).length > 0
        ? ['No machines match.', 'To list all of them: berth operator fleet']
        : [
            'There are no machines yet.',
            'They come from engines (BERTH_ENGINES) and from hosts. To add a host, create',
            'a join token: berth supply token',
          ],
    read: ({ client }) => readStuck(client),
    columns: [
      { title: 'MACHINE', of: (machine) => machine.id },
      { title: 'STATUS', of: statusCell },
      { title: 'GPU', shrink: true, of: (machine) => shortGpuLabel(machine.gpuModel) },
      { title: 'USED', right: true, of: (machine) => `${machine.gpusInUse}/${machine.gpusTotal}` },
      { title: 'FAULTY', of: (machine) => machine.gpusSick.join(',') },
      { title: 'ENGINE', of: (machine) => machine.driver },
      { title: 'SUPPLIER', shrink: true, of: (machine) => machine.supplierId ?? 'the operator' },
      { title: 'OFFERING', wide: true, of: (machine) => machine.offering },
      { title: 'REGION', wide: true, of: (machine) => machine.region },
      { title: 'CLUSTER', wide: true, of: (machine) => machine.clusterName },
      {
        title: '$/GPU-HR',
        right: true,
        wide: true,
        of: ({ pricePerGpuHourUsd: price }) => (price === null ? 'book' : money(price)),
      },
      { title: 'SEEN', wide: true, of: (machine) => utcTime(machine.seenAt) },
    ],
    below: (_, { screen }, stuck) => stuckLines(screen, stuck),
    examples: ['berth operator fleet', 'berth operator fleet --find l40s --status draining --wide'],
  }),
  act({
    command: 'operator machine',
    operation: 'changeMachine',
    description: 'change the supplier, price, listing or GPUs of a machine',
    args: [{ name: '<machine>', help: 'name, as shown by berth operator fleet', field: 'id' }],
    flags: {
      supplierId: { flag: '--supplier <account>', help: 'assign it to a supplier, or none: to the operator' },
      listed: { flag: '--list', help: 'put it on sale', off: ['--unlist', 'take it off sale; rentals continue'] },
      draining: {
        flag: '--drain',
        help: 'stop accepting new tenants; current ones stay',
        off: ['--resume', 'accept tenants again'],
      },
      pricePerGpuHourUsd: { flag: '--price <usd>', help: 'price per GPU-hour for new rentals, without a supplier' },
      gpusSick: {
        flag: '--faulty <gpus>',
        help: 'all GPUs to withdraw from sale, such as 0,3; none: no GPU',
        parse: parseGpus,
      },
      ...REASON,
    },
    done: (machine, { screen }) => {
      const { gpusSick, gpusWithdrawn } = machine
      const byEngine = gpusSick.filter((gpu) => !gpusWithdrawn.includes(gpu))
      const faulty = gpusSick.length === 0 ? 'none' : gpusSick.join(', ')
      return fields(screen, [
        ['Machine', { text: machine.id, style: 'bold' }],
        ['Status', statusCell({ ...machine, listed: true })],
        ['On sale', machine.listed ? 'yes' : 'no'],
        ['Supplier', machine.supplierId ?? 'the operator'],
        [
          'Price',
          machine.pricePerGpuHourUsd === null ? undefined : `${money(machine.pricePerGpuHourUsd)} per GPU-hour`,
        ],
        ['GPUs', `${machine.gpusTotal} ${gpuLabel(machine.gpuModel)}, ${machine.gpusInUse} in use`],
        ['Faulty GPUs', byEngine.length === 0 ? faulty : `${faulty} (${byEngine.join(', ')} reported by its engine)`],
        ['Engine', machine.driver],
      ])
    },
    examples: [
      'berth operator machine rack-07 --drain --faulty 0,3 --reason "failed fan"',
      'berth operator machine rack-07 --supplier acc_ID --reason "new contract"',
      'berth operator machine rack-07 --price 1.20 --reason "new price list"',
    ],
  }),
]

function parseStatus(text: string): string {
  if (Object.hasOwn(statuses, text)) return `node_${text}`
  throw new InvalidArgumentError(`Allowed choices are ${Object.keys(statuses).join(', ')}.`)
}

function statusOf({ status }: FleetMachine): string {
  return status.replace(/^node_/, '')
}

function statusCell(machine: FleetMachine): Cell {
  const text = statusOf(machine)
  if (text === 'ready' && !machine.listed) return { text: 'off sale', style: 'dim' }
  return { text, style: statuses[text as keyof typeof statuses] ?? 'dim' }
}

function parseGpus(text: string): number[] {
  const { max = 0 } = fieldOf('changeMachine', 'gpusSick')
  if (text === NONE) return []
  const gpus = text.split(',').map((gpu) => (/^\d{1,2}$/.test(gpu) ? Number.parseInt(gpu, 10) : Number.NaN))
  if (gpus.every((gpu) => gpu <= max)) return gpus
  throw new InvalidArgumentError(`Must be GPU numbers from 0 to ${max}, such as 0,3, or ${NONE}.`)
}

const HOST = { name: '<host>', help: 'name, as shown by berth operator hosts ls', field: 'id' }

const hostRows: readonly Row[] = [
  list({
    command: 'operator hosts ls',
    operation: 'listHosts',
    rows: 'hosts',
    description: 'list hosts of all suppliers and their health',
    flags: {
      state: { help: 'only this state' },
      driver: { help: 'only this engine: host has an agent, private-cloud is reached over SSH' },
    },
    noun: 'host',
    empty: ['There are no hosts.', 'With an agent: berth supply token. Over SSH: berth operator hosts add FILE.json'],
    columns: hostColumns,
    examples: ['berth operator hosts ls'],
  }),
  custom({
    command: 'operator hosts add',
    operation: 'addHost',
    description: 'add bare-metal hosts reached over SSH',
    args: [
      { name: '<file>', help: 'JSON: one host, or { "hosts": [ … ] } as in BERTH_INVENTORY; - reads standard input' },
    ],
    run: async (call) => {
      const { client, screen, shell, args } = call
      const file = readJsonFile(shell, String(args[0]))
      const hosts = ('hosts' in file && Array.isArray(file['hosts']) ? file['hosts'] : [file]) as Array<
        CallInput<'addHost'>['body']
      >
      const added: Array<Reply<'addHost'>> = []
      // One by one: those before a bad one stay, and the file can be used again without them.
      for (const body of hosts) added.push(await client.call('addHost', { body, idempotencyKey: randomUUID() }))
      screen.show({ hosts: added }, () =>
        added.map((host) => `Added ${host.id} (${host.state}). It is checked before it goes on sale.`),
      )
    },
    examples: ['berth operator hosts add hosts.json'],
  }),
  ...(
    [
      ['drain', 'drain', 'stop accepting new tenants on a host', 'new disks'],
      ['resume', 'resume', 'accept tenants on a host again', 'disks replaced'],
      ['quarantine', 'quarantine', 'take a host out of service; current tenants stay', 'failed fan'],
      ['release', 'release', 'release a host from quarantine; bare metal is cleaned first', 'fan replaced'],
      ['rm', 'remove', 'permanently remove an empty host', 'sold'],
    ] as const
  ).map(([verb, action, description, reason]) =>
    act({
      command: `operator hosts ${verb}`,
      operation: 'changeHost',
      description,
      args: [HOST],
      flags: REASON,
      fixed: { action },
      done: (host) => `${host.id} is ${host.state}${tenants(host)}.`,
      examples: [`berth operator hosts ${verb} calm-ivory-horse --reason "${reason}"`],
    }),
  ),
]

const imageRows: readonly Row[] = [
  list({
    command: 'operator images ls',
    operation: 'listBaseImages',
    rows: 'images',
    description: 'list images for virtual machines',
    noun: 'image',
    empty: ['There are no images. Virtual machines boot a small image that their host builds.'],
    columns: [
      { title: 'NAME', of: (one) => one.name },
      { title: 'ARCH', of: (one) => one.arch },
      { title: 'USER', of: (one) => one.loginUser },
      { title: 'DEFAULT', of: (one) => (one.isDefault ? 'yes' : '') },
      { title: 'SOURCE', of: (one) => one.source },
    ],
    examples: ['berth operator images ls'],
  }),
  act({
    command: 'operator images add',
    operation: 'addBaseImage',
    description: 'add an image for virtual machines',
    args: [{ name: '<name>', help: 'name of the image', field: 'name' }],
    flags: {
      arch: { help: 'CPU architecture' },
      source: { flag: '--source <url>', help: 'https://…, or file:/… on the hosts themselves' },
      sha256: { flag: '--sha256 <hex>', help: 'SHA-256 checksum of the image' },
      loginUser: { flag: '--user <name>', help: 'user to log in as' },
      isDefault: { flag: '--default', help: 'use it for orders that name no image' },
    },
    defaults: { arch: 'x64' },
    done: (image) => `Added ${image.name}${image.isDefault ? `, the default for ${image.arch}` : ''}.`,
    examples: [
      'berth operator images add debian --source file:/srv/debian.qcow2 \\',
      '    --sha256 HEX --user debian --default',
    ],
  }),
  act({
    command: 'operator images rm',
    operation: 'deleteBaseImage',
    description: 'delete an image; machines started from it continue',
    args: [{ name: '<name>', help: 'name, as shown by berth operator images ls', field: 'id' }],
    done: (_, { args }) => `Deleted ${String(args[0])}.`,
    examples: ['berth operator images rm debian'],
  }),
]

const priceLabels = {
  found: 'in the price book',
  disabled: 'in the price book, disabled',
  missing: 'not in the price book',
  other_gpu_count: 'in the price book for other GPU counts only',
} as const satisfies Record<Reply<'explainPlacement'>['price'], string>

const placementRow = act({
  command: 'operator placement',
  operation: 'explainPlacement',
  description: 'show where an order would be placed, or why it cannot be',
  flags: {
    machineType: { flag: '--kind <kind>', help: 'kind of machine' },
    region: { help: 'region' },
    gpuType: { flag: '--gpu <type>', help: 'GPU type' },
    gpuCount: { flag: '--count <n>', help: 'number of GPUs' },
    networkType: { flag: '--network <type>', help: 'network between machines' },
  },
  defaults: { machineType: 'virtual-machine', gpuType: 'h100', gpuCount: 1, networkType: 'ethernet' },
  isWrong: ({ found }) => !found,
  done: (report, { screen, input }) => {
    const { gpuCount, gpuType, networkType, region, machineType } = input.parts.body ?? {}
    return [
      ...fields(screen, [
        [
          'Order',
          `${String(gpuCount)} ${String(gpuType)} with ${String(networkType)} in ${String(region)}, as ${String(machineType)}`,
        ],
        ['Place', report.found ? { text: 'found', style: 'green' } : { text: 'none', style: 'red' }],
        ['Price', priceLabels[report.price]],
      ]),
      '',
      ...table(
        screen,
        [{ title: 'MACHINE' }, { title: 'ENGINE' }, { title: 'RESULT' }, { title: 'DETAIL' }],
        [
          ...report.candidates.map((one): Cell[] => [
            one.machineId,
            one.driver,
            { text: 'matches', style: 'green' },
            `${one.gpusFree} of ${one.gpusTotal} GPUs free in ${one.clusterName}`,
          ]),
          ...report.rejected.map((one): Cell[] => [one.machineId, one.driver, one.reason, one.detail]),
        ],
      ),
      '',
      `${count(report.candidates.length, 'machine')} matching, ${report.rejectedCount} not matching`,
    ]
  },
  examples: ['berth operator placement --gpu h200 --count 2 --region mock-region'],
})

export const rows: readonly Row[] = [...machineRows, ...hostRows, ...imageRows, placementRow]
