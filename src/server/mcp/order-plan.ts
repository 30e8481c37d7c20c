/**
 * Turns what somebody wants into an order with its price: the body of an operation, complete but for its limits. Prices
 * come from the operations that show them to everybody.
 */
import { z } from 'zod'
import { HOUR_MS } from '../../base/instant.ts'
import { formatUsd, nanoUsdOf, usd, usdFromNumber, zeroUsd, type NanoUsd } from '../../base/money.ts'
import { fail, failField, ok, type Result } from '../../contract/result.ts'
import { readOrderedMachines } from '../../store/machine/machine.ts'
import type { QuotedOperation } from './quote-token.ts'
import type { ToolCall } from './tool.ts'

const orderKinds = ['container', 'virtual-machine', 'bare-metal', 'volume', 'model'] as const

export const wishFields = {
  kind: z.enum(orderKinds).default('container'),
  machineId: z.string().max(100).optional().describe('From search_offers'),
  gpu: z.string().max(100).optional().describe('Or the cheapest with it'),
  gpus: z.int().min(1).max(64).default(1),
  region: z.string().max(100).optional(),
  network: z.enum(['infiniband', 'ethernet']).optional(),
  image: z.string().min(1).max(600).optional(),
  command: z.string().min(1).max(4_096).optional().describe('Shell, in a container'),
  env: z.record(z.string(), z.string()).optional().describe('{{secrets.NAME}} for secrets'),
  ports: z.array(z.int().min(1).max(65_535)).max(10).optional(),
  diskGb: z.int().min(1).max(64_000).optional(),
  label: z.string().min(1).max(100).optional(),
  sizeGb: z.int().min(256).max(64_000).optional().describe('Volume'),
  model: z.string().max(200).optional().describe('Of the catalog'),
}
export type Wish = z.output<z.ZodObject<typeof wishFields>>

export interface OrderPlan {
  readonly operation: QuotedOperation
  readonly order: Readonly<Record<string, unknown>>
  readonly name: string
  readonly costPerHour: NanoUsd
  /** It has no end of its own: the time for which it is counted. Absent: it gets a limit and an end. */
  readonly countedMs?: number
}

const MONTH_MS = 30 * 24 * HOUR_MS
const DAY_MS = 24 * HOUR_MS

export function planOrder(call: ToolCall, wish: Wish): Promise<Result<OrderPlan>> {
  switch (wish.kind) {
    case 'container':
      return planContainer(call, wish)
    case 'volume':
      return planVolume(call, wish)
    case 'model':
      return planModel(call, wish)
    case 'virtual-machine':
    case 'bare-metal':
      return planMachine(call, wish, wish.kind)
  }
}

async function planContainer(call: ToolCall, wish: Wish): Promise<Result<OrderPlan>> {
  const { gpus, image, command, env, ports, diskGb, label } = wish
  const machineId = wish.machineId === undefined ? await findMachine(call, wish) : ok(wish.machineId)
  if (!machineId.ok) return machineId
  const machine = (await readOrderedMachines(call.app.database.db, [machineId.value])).get(machineId.value)
  const price = machine?.price_nano_per_gpu_hour ?? null
  if (machine?.offering !== 'marketplace' || price === null) return failField(['machineId'], 'machine_not_found')
  const order = {
    kind: 'container',
    machineId: machineId.value,
    gpuCount: gpus,
    ...(image === undefined ? {} : { image: readImage(image) }),
    ...(command === undefined ? {} : { command: ['/bin/sh', '-c'], args: [command] }),
    ...present({ env, ports: ports?.map((port) => ({ port })), diskGb, label }),
  }
  return ok({
    operation: 'createRental',
    order,
    name: `${gpus} x ${machine.gpu_model}`,
    costPerHour: nanoUsdOf(price * BigInt(gpus)),
  })
}

async function findMachine({ operate }: ToolCall, { gpu, gpus, region }: Wish): Promise<Result<string>> {
  if (gpu === undefined) return failField(['gpu'], 'machine_not_found')
  const machines = await operate('searchMachines', { query: { gpu, free: gpus, region, limit: 1 } })
  if (!machines.ok) return machines
  const [machine] = machines.value.machines
  if (machine !== undefined) return ok(machine.id)
  return fail('no_capacity', { gpus: `${gpus} x ${gpu}`, where: region === undefined ? 'anywhere' : `in ${region}` })
}

/** A registry may have a port, so only a colon after the last slash starts a tag. */
function readImage(image: string): { name: string; tag?: string } {
  const at = image.lastIndexOf(':')
  return at > image.lastIndexOf('/') ? { name: image.slice(0, at), tag: image.slice(at + 1) } : { name: image }
}

async function planMachine(
  call: ToolCall,
  wish: Wish,
  kind: 'virtual-machine' | 'bare-metal',
): Promise<Result<OrderPlan>> {
  const { gpus, env, ports, diskGb, label } = wish
  const options = await call.operate('listRentalOptions')
  if (!options.ok) return options
  const [cheapest] = options.value
    .filter((one) => one.machineType === kind && one.enabled && one.totalAvailable > 0 && one.gpuCount === gpus)
    .filter(
      (one) =>
        one.region === (wish.region ?? one.region) && one.connectionType === (wish.network ?? one.connectionType),
    )
    .filter((one) => wish.gpu === undefined || one.gpuType.includes(wish.gpu.toLowerCase()))
    .toSorted((a, b) => a.costPerHour - b.costPerHour)
  if (cheapest === undefined) {
    const where = wish.region === undefined ? 'anywhere' : `in ${wish.region}`
    return fail('no_capacity', { gpus: `${gpus} x ${wish.gpu ?? 'GPU'}`, where })
  }
  const { region, gpuType, connectionType: networkType } = cheapest
  const query = { region, gpuType, networkType, gpuCount: gpus, rentalType: kind, diskGb }
  const quoted = await call.operate('quoteRental', { query })
  if (!quoted.ok) return quoted
  const shared = kind === 'virtual-machine' ? { ports: ports?.map((port) => ({ port })), diskGb } : {}
  return ok({
    operation: 'createRental',
    order: { kind, region, gpuType, networkType, gpuCount: gpus, ...present({ env, label, ...shared }) },
    name: `${gpus} x ${gpuType}`,
    costPerHour: usd(quoted.value.costPerHourUsd),
  })
}

async function planVolume({ operate }: ToolCall, { region, sizeGb, label }: Wish): Promise<Result<OrderPlan>> {
  const options = await operate('listStorageOptions')
  if (!options.ok) return options
  const option = options.value.find((one) => one.enabled && one.region === region)
  if (option === undefined || region === undefined) {
    return failField(['region'], 'region_disabled', { option: 'Storage', region: region ?? 'no region' })
  }
  const size = sizeGb ?? option.minSizeInGb
  const name = label ?? `volume-${size}`
  return ok({
    operation: 'createVolume',
    order: { region, label: name, sizeInGb: size },
    name,
    costPerHour: nanoUsdOf(usd(option.costPerGbHourUsd) * BigInt(size)),
    countedMs: MONTH_MS,
  })
}

async function planModel({ operate }: ToolCall, wish: Wish): Promise<Result<OrderPlan>> {
  const { model, gpu, region, label, env } = wish
  const spec = {
    ...(model === undefined ? {} : { catalogModel: model }),
    gpus: present({ model: gpu, region }),
    ...present({ env }),
  }
  const quoted = await operate('quoteManagedDeployment', { body: spec })
  if (!quoted.ok) return quoted
  const costPerHour = usd(quoted.value.costPerHourUsd)
  return ok({
    operation: 'createManagedDeployment',
    order: {
      ...spec,
      ...present({ name: label }),
      replicas: { min: 0, max: 1 },
      hourlyBudgetUsd: formatUsd(costPerHour),
    },
    name: label ?? model ?? 'model',
    costPerHour,
    countedMs: DAY_MS,
  })
}

function present<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never
}

/** An amount in USD as models write it: a number. */
export function amountOf(amount: number): NanoUsd {
  return usdFromNumber(amount) ?? zeroUsd
}
