/** An order as the server takes it, and where one goes when it is placed. */
import { useNavigate } from '@tanstack/react-router'
import { formatUsd } from '../../../src/base/money.ts'
import type { CallInput } from '../../../src/client/client.ts'
import type { ClientError } from '../../../src/client/error.ts'
import type { RentalRecord, RentalType } from '../../../src/contract/rental.ts'
import type { TermQuote } from '../../../src/domain/term.ts'
import { useAction, refresh } from '../../api/query.ts'
import { toast } from '../../ui/toast.tsx'
import type { Guards } from './guards.tsx'
import type { Choices } from './option.ts'
import { isPriceChange } from './refusal.tsx'
import type { StorageWish } from './storage.tsx'

export const cudaVersions = [
  { value: 'cuda12.8', label: 'CUDA 12.8' },
  { value: 'cuda12.9', label: 'CUDA 12.9' },
] as const
export type CudaVersion = (typeof cudaVersions)[number]['value']

interface Order {
  readonly chosen: Choices['chosen']
  readonly term: TermQuote | undefined
  /** When its term ends. */
  readonly goesOn: boolean
  readonly guards: Guards
  /** Bare metal. Empty: the usual one. */
  readonly cuda: CudaVersion | ''
  readonly storage: StorageWish | undefined
  /** Virtual machines. */
  readonly ports: number[]
}

interface Renting {
  readonly order: (order: Order) => void
  readonly error: ClientError | null
  /** What the machine may have cost an hour when it was last ordered. */
  readonly asked: string | undefined
  readonly isPending: boolean
  /** As if nothing had been ordered. */
  readonly forget: () => void
}

export function useRent(kind: RentalType): Renting {
  const navigate = useNavigate()
  const changed = ['listRentalOptions', 'getCustomerBalance', 'listVolumes'] as const
  const machine = useAction('createVirtualMachineRental', ['listVirtualMachineRentals', ...changed])
  const metal = useAction('createBareMetalRental', ['listBareMetalRentals', ...changed])
  const onSuccess = ({ id, label, name }: RentalRecord): void => {
    toast(`${label ?? name ?? 'The rental'} is starting`)
    void navigate({ to: '/rentals/$id', params: { id: String(id) } })
  }
  // No event tells of prices: what is on the screen would stay as it was.
  const onError = (error: ClientError): void => {
    if (isPriceChange(error)) void refresh(['listRentalOptions', 'listReserveOptions'])
  }
  const { error, isPending, variables, reset } = kind === 'virtual-machine' ? machine : metal
  return {
    order: (order) => {
      if (kind === 'virtual-machine') machine.mutate({ body: virtualMachineBody(order) }, { onSuccess, onError })
      else metal.mutate({ body: bareMetalBody(order) }, { onSuccess, onError })
    },
    error,
    isPending,
    asked: variables?.body.maxCostPerHourUsd,
    forget: reset,
  }
}

function commonBody({ chosen, term, goesOn, guards }: Order) {
  const { option, gpuCount } = chosen
  return {
    gpuCount,
    gpuType: option.gpuType,
    networkType: option.connectionType,
    // What the button says: the operator may have raised it since.
    maxCostPerHourUsd: formatUsd(term?.perHour ?? chosen.perHour),
    ...(term === undefined
      ? {}
      : {
          termType: 'reserved' as const,
          termPeriodDays: term.days,
          discountPercentage: term.percentage,
          convertToOnDemandOnExpiry: goesOn,
        }),
    ...(guards.label === undefined ? {} : { label: guards.label }),
    ...(guards.endsAt === undefined ? {} : { autoTerminateAt: guards.endsAt }),
    ...(guards.limitUsd === undefined ? {} : { spendingLimitUsd: guards.limitUsd }),
  }
}

type VirtualMachineBody = CallInput<'createVirtualMachineRental'>['body']
type BareMetalBody = CallInput<'createBareMetalRental'>['body']

/** The offer names no region of a kind that an order of that kind could not. */
function virtualMachineBody(order: Order): VirtualMachineBody {
  return {
    ...commonBody(order),
    region: order.chosen.option.region as NonNullable<VirtualMachineBody['region']>,
    ...(order.ports.length === 0 ? {} : { customPorts: order.ports }),
  }
}

function bareMetalBody(order: Order): BareMetalBody {
  return {
    ...commonBody(order),
    region: order.chosen.option.region as NonNullable<BareMetalBody['region']>,
    ...(order.cuda === '' ? {} : { cudaVersion: order.cuda }),
    ...(order.storage === undefined ? {} : { storageVolume: order.storage }),
  }
}
