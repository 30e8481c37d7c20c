/** The values of the order form, the request made from them, and the page that opens after the order. */
import { useNavigate } from '@tanstack/react-router'
import { formatUsd, type NanoUsd } from '../../../src/base/money.ts'
import type { CallInput } from '../../../src/client/client.ts'
import type { ClientError } from '../../../src/client/error.ts'
import type { AfterInterruption } from '../../../src/contract/interruption.ts'
import type { RentalKind } from '../../../src/domain/rental.ts'
import type { TermQuote } from '../../../src/domain/term.ts'
import { displayName } from '../../../src/view/own-machine.ts'
import { refresh, useAction } from '../../api/query.ts'
import { optionalText } from '../../form/read.ts'
import { toast } from '../../ui/toast.tsx'
import { advancedOf, advancedPaths, noAdvanced } from './advanced.ts'
import { endOf, noGuards } from './guards.tsx'
import { keptOf, type Like } from './like.ts'
import { mountPaths, noMounts, volumesOf } from './mounts.tsx'
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
  /** The length of the term in days; empty: on demand. */
  days: '',
  /** Whether the rental continues on demand after the term. */
  continues: true,
  /** Bare metal: the CUDA version. Empty: the machine's default. */
  cuda: '',
  ports: '',
  /** Containers: the number of GPUs, and the image (empty: the default). */
  gpus: '1',
  image: '',
  /** Containers: what happens after an interruption; empty: the rental is not interruptible. */
  interruption: '' as '' | AfterInterruption,
}
export type Order = typeof noOrder

/** Paths of fields whose name in the request differs. */
export const orderPaths = {
  ...advancedPaths,
  ...mountPaths,
  days: 'termPeriodDays',
  cuda: 'cudaVersion',
  endsAt: 'autoTerminateAt',
  limitUsd: 'spendingLimitUsd',
  volumeLabel: 'newVolume.label',
  volumeSizeGb: 'newVolume.sizeInGb',
  volumeId: 'volumes.0.volumeId',
  gpus: 'gpuCount',
  image: 'image.name',
  interruption: 'interruptible',
} as const

interface Offer {
  readonly kind: RentalKind
  /** The fields of the order that name the machine. */
  readonly place: object
  /** The price shown on the button. It may have risen since. */
  readonly perHour: NanoUsd
  readonly term?: TermQuote | undefined
  /** The seconds until the GPUs are available. Absent: they are free. */
  readonly waitSeconds?: number | undefined
  readonly templateId: string | undefined
  readonly like: Like | undefined
}

/** Leaves out empty fields: each kind of machine has only its own. */
export function bodyOf(order: Order, { kind, place, perHour, term, waitSeconds, templateId, like }: Offer): OrderBody {
  const advanced = advancedOf(order)
  const image = optionalText(order.image)
  const fields = {
    kind,
    ...place,
    maxCostPerHourUsd: formatUsd(term?.perHour ?? perHour),
    termPeriodDays: term?.days,
    discountPercentage: term?.percentage,
    convertToOnDemandOnExpiry: term && order.continues,
    label: optionalText(order.label),
    autoTerminateAt: endOf(order),
    spendingLimitUsd: optionalText(order.limitUsd),
    templateId,
    image: image && { name: image },
    ...(order.interruption === '' ? {} : { interruptible: true, afterInterruption: order.interruption }),
    maxWaitSeconds: waitSeconds,
    ports: portsOf(order.ports),
    cudaVersion: optionalText(order.cuda),
    ...(kind === 'bare-metal' ? storageOf(order) : { volumes: volumesOf(order) }),
    ...advanced,
    ...keptOf(like, order, advanced.env),
  }
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as OrderBody
}

type OrderBody = CallInput<'createRental'>['body']

interface Renting {
  readonly order: (body: OrderBody) => void
  readonly error: ClientError | null
  /** The price limit of the last order. */
  readonly priceLimit: string | undefined
  readonly isPending: boolean
  readonly reset: () => void
}

export function useRent(): Renting {
  const navigate = useNavigate()
  const { mutate, error, isPending, variables, reset } = useAction('createRental', [
    'listRentals',
    'listRentalOptions',
    'searchMachines',
    'getCustomerBalance',
    'listVolumes',
  ])
  return {
    order: (body) =>
      mutate(
        { body },
        {
          onSuccess: (rental) => {
            toast(`${displayName(rental)} is starting`)
            void navigate({ to: '/rentals/$id', params: { id: String(rental.id) } })
          },
          // Price changes raise no events.
          onError: (refused) => {
            if (isPriceChange(refused)) void refresh(['listRentalOptions', 'listReserveOptions', 'searchMachines'])
          },
        },
      ),
    error,
    isPending,
    priceLimit: variables?.body.maxCostPerHourUsd,
    reset,
  }
}
