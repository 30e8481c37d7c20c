/** `berth rentals`: machines of all three kinds in one list. */
import type { Command } from 'commander'
import { formatUsdForPeople, nanoUsdOf, sumUsd, usdFromNumber, zeroUsd, type NanoUsd } from '../base/money.ts'
import type { Reply } from '../client/client.ts'
import { table, type Cell, type Style } from './screen.ts'
import type { Run } from './session.ts'
import { count, time } from './wording.ts'

export function addRentalCommands(program: Command, run: Run): void {
  program
    .command('rentals')
    .description('your machines, and how to reach them')
    .action(
      run('customer', async ({ client, screen }) => {
        const [virtualMachines, bareMetal, { instances }] = await Promise.all([
          client.call('listVirtualMachineRentals'),
          client.call('listBareMetalRentals'),
          client.call('listInstances'),
        ])
        const rows = [...[...virtualMachines, ...bareMetal].map(rowOfRental), ...instances.map(rowOfInstance)]
        screen.show({ virtualMachines, bareMetal, instances }, () => {
          if (rows.length === 0) return ['Nothing is rented.', `What can be, and how: ${client.url}/docs`]
          // Only what runs is paid for.
          const running = rows.filter((row) => row.status === 'Running' || row.status === 'online')
          const cost = formatUsdForPeople(sumUsd(running.map((row) => row.costPerHour)))
          return [
            ...table(screen, columns, rows.map(cellsOf)),
            '',
            `${count(rows.length, 'rental')}, ${running.length} running at ${cost} an hour`,
          ]
        })
      }),
    )
}

interface Row {
  readonly id: string
  readonly name: string
  readonly kind: string
  readonly status: string
  readonly gpus: string
  readonly region: string
  readonly costPerHour: NanoUsd
  readonly since: string
  readonly ssh: string
}

const columns = [
  { title: 'ID' },
  { title: 'NAME' },
  { title: 'KIND' },
  { title: 'STATUS' },
  { title: 'GPUS' },
  { title: 'REGION' },
  { title: '$ AN HOUR', right: true },
  { title: 'SINCE' },
  { title: 'REACH IT' },
] as const

function cellsOf(row: Row): Cell[] {
  return [
    row.id,
    row.name,
    row.kind,
    { text: row.status, style: styleOf(row.status) },
    row.gpus,
    row.region,
    formatUsdForPeople(row.costPerHour),
    row.since,
    row.ssh,
  ]
}

function styleOf(status: string): Style {
  if (status === 'Running' || status === 'online') return 'green'
  if (status === 'Failed' || status === 'failed') return 'red'
  return 'yellow'
}

type Rental = Reply<'listVirtualMachineRentals'>[number] | Reply<'listBareMetalRentals'>[number]

function rowOfRental(rental: Rental): Row {
  const ssh = rental.providerData.sshNetworking?.[0]
  return {
    id: String(rental.id),
    name: rental.label ?? rental.name ?? '',
    kind: rental.rentalType,
    status: rental.status,
    gpus: `${rental.gpuCount} ${rental.gpuType}`,
    region: rental.region,
    costPerHour: usdFromNumber(rental.currentTerm.costPerHour) ?? zeroUsd,
    since: time(rental.startedAt ?? rental.createdAt),
    ssh: ssh === undefined || rental.status !== 'Running' ? '' : `ssh ${ssh.user}@${ssh.host} -p ${ssh.port}`,
  }
}

function rowOfInstance({
  id,
  instance,
  userMetadata,
  start,
  created,
  sshCommand,
}: Reply<'listInstances'>['instances'][number]): Row {
  const { label } = userMetadata
  const perGpu = usdFromNumber(instance.pricing.price.amount) ?? zeroUsd
  return {
    id,
    name: typeof label === 'string' ? label : '',
    kind: 'marketplace',
    status: instance.status,
    gpus: `${instance.gpu_count} ${instance.hardware.gpus[0]?.model ?? 'GPU'}`,
    region: instance.location.region,
    costPerHour: nanoUsdOf(perGpu * BigInt(instance.gpu_count)),
    since: time(start ?? created),
    ssh: sshCommand,
  }
}
