/** The order form's values, the request made of them, and where a placed order leads. */
import { useNavigate } from '@tanstack/react-router'
import { formatUsd } from '../../../src/base/money.ts'
import type { CallInput, Reply } from '../../../src/client/client.ts'
import type { ClientError } from '../../../src/client/error.ts'
import type { RentalType } from '../../../src/contract/rental.ts'
import type { TermQuote } from '../../../src/domain/term.ts'
import { refresh, useAction } from '../../api/query.ts'
import { optionalText } from '../../form/read.ts'
import { toast } from '../../ui/toast.tsx'
import { advancedOf, advancedPaths, noAdvanced } from './advanced.ts'
import { endOf, noGuards } from './guards.tsx'
import { keptOf, type Like } from './like.ts'
import { mountPaths, noMounts, volumesOf } from './mounts.tsx'
import type { Choices } from './option.ts'
import { portsOf } from './ports.ts'
import { isPriceChange } from './refusal.tsx'
import { noStorage, storageOf } from './storage.tsx'

export const cudaVersions = [
  { value: 'cuda12.8', label: 'CUDA 12.8' },
  { value: 'cuda12.9', label: 'CUDA 12.9' },
] as const

export const noOrder = {
  ...noAdvanced,
  ...noGuards,
  ...noMounts,
  ...noStorage,
  /** Of the term; empty: on demand. */
  days: '',
  /** On demand after the term. */
  continues: true,
  /** Bare metal. Empty: the machine's default. */
  cuda: '',
  /** Virtual machines. */
  ports: '',
}
export type Order = typeof noOrder

/** Where fields are in the body, if not under their own name. */
export const orderPaths = {
  ...advancedPaths,
  ...mountPaths,
  days: 'termPeriodDays',
  cuda: 'cudaVersion',
  endsAt: 'autoTerminateAt',
  limitUsd: 'spendingLimitUsd',
  volumeLabel: 'storageVolume.label',
  volumeSizeGb: 'storageVolume.sizeInGb',
  volumeId: 'storageVolume.id',
} as const

type VirtualMachineBody = CallInput<'createVirtualMachineRental'>['body']
type BareMetalBody = CallInput<'createBareMetalRental'>['body']

interface OrderOf {
  readonly chosen: Choices['chosen']
  readonly term: TermQuote | undefined
  readonly templateId: string | undefined
  readonly like: Like | undefined
}

export function bodyOf(kind: RentalType, order: Order, { chosen, term, templateId, like }: OrderOf) {
  const { option, gpuCount } = chosen
  const advanced = advancedOf(order)
  const kept = keptOf(like, order, advanced.env)
  const common = {
    gpuCount,
    gpuType: option.gpuType,
    networkType: option.connectionType,
    // The price on the button: the operator may have raised it since.
    maxCostPerHourUsd: formatUsd(term?.perHour ?? chosen.perHour),
    ...(term === undefined
      ? {}
      : {
          termType: 'reserved' as const,
          termPeriodDays: term.days,
          discountPercentage: term.percentage,
          convertToOnDemandOnExpiry: order.continues,
        }),
    label: optionalText(order.label),
    autoTerminateAt: endOf(order),
    spendingLimitUsd: optionalText(order.limitUsd),
    templateId,
    ...advanced,
    ...kept,
  }
  // An offer of a kind only names regions of that kind.
  return kind === 'virtual-machine'
    ? {
        ...common,
        region: option.region as VirtualMachineBody['region'],
        ports: kept.ports ?? portsOf(order.ports),
        volumes: volumesOf(order),
      }
    : {
        ...common,
        region: option.region as BareMetalBody['region'],
        cudaVersion: optionalText(order.cuda) as BareMetalBody['cudaVersion'],
        storageVolume: storageOf(order),
      }
}

export type OrderBody = ReturnType<typeof bodyOf>

interface Renting {
  readonly order: (body: OrderBody) => void
  readonly error: ClientError | null
  /** The price limit of the last order. */
  readonly asked: string | undefined
  readonly isPending: boolean
  readonly reset: () => void
}

export function useRent(kind: RentalType): Renting {
  const navigate = useNavigate()
  const changed = ['listAnyRentals', 'listRentalOptions', 'getCustomerBalance', 'listVolumes'] as const
  const machine = useAction('createVirtualMachineRental', ['listVirtualMachineRentals', ...changed])
  const metal = useAction('createBareMetalRental', ['listBareMetalRentals', ...changed])
  const onSuccess = ({ id, label, name }: Reply<'createBareMetalRental'>): void => {
    toast(`${label ?? name ?? 'The rental'} is starting`)
    void navigate({ to: '/rentals/$id', params: { id: String(id) } })
  }
  // Price changes raise no events.
  const onError = (error: ClientError): void => {
    if (isPriceChange(error)) void refresh(['listRentalOptions', 'listReserveOptions'])
  }
  const { error, isPending, variables, reset } = kind === 'virtual-machine' ? machine : metal
  return {
    order: (body) => {
      if (kind === 'virtual-machine') machine.mutate({ body: body as VirtualMachineBody }, { onSuccess, onError })
      else metal.mutate({ body: body as BareMetalBody }, { onSuccess, onError })
    },
    error,
    isPending,
    asked: variables?.body.maxCostPerHourUsd,
    reset,
  }
}
