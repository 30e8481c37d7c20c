/** `berth volumes`: storage that outlives machines. A volume is named by its number or its label. */
import { randomUUID } from 'node:crypto'
import { InvalidArgumentError, type Command } from 'commander'
import { formatUsdForPeople, nanoUsdOf, parseUsd, usdFromNumber, zeroUsd } from '../base/money.ts'
import type { CallInput, Client, Reply } from '../client/client.ts'
import { count } from '../view/number.ts'
import { money } from '../view/money.ts'
import { listOwn, NAME_HELP, pickOwn } from './own-machine.ts'
import { confirm, YES } from './question.ts'
import { table, type Cell } from './screen.ts'
import { GROUP_USAGE, type Run } from './session.ts'
import { CliError, exitCodes, type Shell } from './shell.ts'
import { parseWhole } from './supply.ts'

type Volume = Reply<'listVolumes'>[number]
type StorageOption = Reply<'listStorageOptions'>[number]

const VOLUME_HELP = 'its number or label, as berth volumes ls shows it'
const STEP_GB = 256
const MAX_GB = 64_000

export function addVolumeCommands(program: Command, run: Run, shell: Shell): void {
  const volumes = program.command('volumes').description('storage that outlives machines').usage(GROUP_USAGE)
  volumes.commandsGroup('Customers:')
  addList(volumes, run)
  addPrices(volumes, run)
  addCreate(volumes, run)
  addAttach(volumes, run)
  addDetach(volumes, run)
  addRemove(volumes, run, shell)
}

function addList(volumes: Command, run: Run): void {
  volumes
    .command('ls', { isDefault: true })
    .description('list your storage volumes')
    .action(
      run('customer', async ({ client, screen }) => {
        const list = await client.call('listVolumes')
        screen.show(list, () =>
          list.length === 0
            ? ['There are no volumes.', 'Make one with: berth volumes create LABEL --size 256 --region REGION']
            : [...table(screen, columns, list.map(cells)), '', count(list.length, 'volume')],
        )
      }),
    )
}

const columns = [
  { title: 'ID', right: true },
  { title: 'LABEL', shrink: true },
  { title: 'GB', right: true },
  { title: 'STATUS' },
  { title: 'REGION' },
  { title: '$ AN HOUR', right: true },
  { title: 'ATTACHED TO', shrink: true },
] as const

function cells(volume: Volume): Cell[] {
  return [
    String(volume.id),
    volume.label,
    String(volume.sizeGb),
    { text: volume.status, style: volume.status === 'active' ? 'green' : 'yellow' },
    volume.region,
    formatUsdForPeople(usdFromNumber(volume.costPerHour) ?? zeroUsd),
    volume.attachedRentals.join(', '),
  ]
}

function addPrices(volumes: Command, run: Run): void {
  const prices = volumes
    .command('prices')
    .description('what a volume costs, and where it can be made')
    .option('--size <gb>', `of which size, in steps of ${STEP_GB}`, parseSize, STEP_GB)
  prices.action(
    run('anyone', async ({ client, screen }) => {
      const { size } = prices.opts<{ size: number }>()
      const options = await client.call('listStorageOptions')
      screen.show(options, () => {
        if (options.length === 0) return ['Volumes are not sold here: no region has a price.', 'Ask the operator.']
        const priceColumns = [
          { title: 'REGION' },
          { title: '$ A GB AND HOUR', right: true },
          { title: `$ AN HOUR OF ${size} GB`, right: true },
          { title: 'ROOM, GB', right: true },
        ] as const
        return [
          ...table(
            screen,
            priceColumns,
            options.map((option) => priceCells(option, size)),
          ),
          '',
          `${count(options.length, 'region')}. berth volumes create LABEL --size ${size} --region REGION makes one.`,
        ]
      })
    }),
  )
}

function priceCells(option: StorageOption, sizeGb: number): Cell[] {
  const perGb = parseUsd(option.costPerGbHourUsd) ?? zeroUsd
  return [
    option.region,
    money(option.costPerGbHourUsd),
    formatUsdForPeople(nanoUsdOf(perGb * BigInt(sizeGb))),
    roomCell(option, sizeGb),
  ]
}

/** The largest volume that can be made now. */
function roomCell({ enabled, availableGb }: StorageOption, sizeGb: number): Cell {
  if (!enabled) return { text: 'not now', style: 'yellow' }
  if (availableGb === null) return 'no limit known'
  const text = availableGb.toLocaleString('en-US')
  return availableGb < sizeGb ? { text, style: 'yellow' } : text
}

function addCreate(volumes: Command, run: Run): void {
  const create = volumes
    .command('create')
    .description('make a storage volume')
    .argument('<label>', 'a name for it: letters, digits, - and _, four at least')
    .requiredOption('--size <gb>', `in steps of ${STEP_GB}`, parseSize)
    .requiredOption('--region <region>', 'where')
    .option('--attach <name...>', 'machines to attach it to; a disk is made on the host of the first')
  create.action(
    run('customer', async ({ client, screen }, label = '') => {
      const { size, region, attach } = create.opts<{ size: number; region: string; attach?: string[] }>()
      const rentalIds = attach === undefined ? {} : { rentalIds: await idsOf(client, attach) }
      const body = { label, region, sizeInGb: size, ...rentalIds } as CallInput<'createVolume'>['body']
      const made = await client.call('createVolume', { body, idempotencyKey: randomUUID() })
      screen.show(made, () => [
        `${made.label} is being made: volume ${made.storageVolumeId}, ${made.sizeInGb} GB in ${made.region}.`,
        'berth volumes ls shows when it is active.',
      ])
    }),
  )
}

function addAttach(volumes: Command, run: Run): void {
  const attach = volumes
    .command('attach')
    .description('attach a volume to machines, all or none')
    .argument('<volume>', VOLUME_HELP)
    .argument('<name...>', NAME_HELP)
  attach.action(
    run('customer', async ({ client, screen }, wanted = '') => {
      const { id, label } = await findVolume(client, wanted)
      const rentalIds = await idsOf(client, attach.args.slice(1))
      const told = await client.call('attachVolume', { body: { storageVolumeId: id, rentalIds } })
      screen.show(told, () => [`${label} is being attached to ${rentalWords(told.attachedRentalIds)}.`])
    }),
  )
}

function addDetach(volumes: Command, run: Run): void {
  const detach = volumes
    .command('detach')
    .description('detach a volume from machines')
    .argument('<volume>', VOLUME_HELP)
    .argument('[name...]', `${NAME_HELP}; none: all of them`)
  detach.action(
    run('customer', async ({ client, screen }, wanted = '') => {
      const { id, label } = await findVolume(client, wanted)
      const names = detach.args.slice(1)
      const rentalIds = names.length === 0 ? {} : { rentalIds: await idsOf(client, names) }
      const told = await client.call('detachVolume', { body: { storageVolumeId: id, ...rentalIds } })
      const rest = told.attachedRentalIds
      screen.show(told, () => [
        `${label} is being detached${rest.length === 0 ? '' : `; it stays with ${rentalWords(rest)}`}.`,
      ])
    }),
  )
}

function addRemove(volumes: Command, run: Run, shell: Shell): void {
  const remove = volumes
    .command('rm')
    .description('delete a volume and its data; asks')
    .argument('<volume>', VOLUME_HELP)
    .option(...YES)
  remove.action(
    run('customer', async ({ client, screen }, wanted = '') => {
      const { id, label, sizeGb } = await findVolume(client, wanted)
      const { yes } = remove.opts<{ yes?: true }>()
      await confirm(shell, `Delete ${label} (${sizeGb} GB) and everything in it?`, yes === true)
      const told = await client.call('terminateVolume', { body: { storageVolumeId: id } })
      screen.show(told, () => [`${label} is being deleted. It costs nothing from now on.`])
    }),
  )
}

async function findVolume(client: Client, wanted: string): Promise<Volume> {
  const list = await client.call('listVolumes')
  const exact = list.find(({ id }) => String(id) === wanted)
  if (exact !== undefined) return exact
  const labelled = list.filter(({ label }) => label === wanted)
  const [only] = labelled
  if (only === undefined) {
    throw new CliError(exitCodes.failed, `There is no volume ${wanted}.`, ['berth volumes ls lists them.'])
  }
  if (labelled.length > 1) {
    const ids = labelled.map(({ id }) => id).join(', ')
    throw new CliError(exitCodes.usage, `Several volumes have the label ${wanted}.`, [`Name one of: ${ids}`])
  }
  return only
}

function parseSize(text: string): number {
  const sizeGb = parseWhole(STEP_GB, MAX_GB)(text)
  if (sizeGb % STEP_GB !== 0)
    throw new InvalidArgumentError(`In steps of ${STEP_GB}: ${STEP_GB}, ${2 * STEP_GB} and so on.`)
  return sizeGb
}

/** Volumes know rentals by number. */
async function idsOf(client: Client, names: readonly string[]): Promise<number[]> {
  const machines = await listOwn(client)
  return names.map((wanted) => {
    const { kind, id, name } = pickOwn(machines, wanted)
    if (kind !== 'container') return Number.parseInt(id, 10)
    throw new CliError(exitCodes.failed, `${name} is a container, and containers have no volumes.`)
  })
}

function rentalWords(ids: readonly number[]): string {
  return `${ids.length === 1 ? 'rental' : 'rentals'} ${ids.join(', ')}`
}
