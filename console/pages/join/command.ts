/**
 * The command that makes a machine a host: it installs the agent from this server, joins and keeps it running. Every
 * value is checked here to be safe in a shell.
 */
import { installCommand } from '../../../src/base/install-command.ts'
import { hostName } from '../../../src/contract/agent.ts'
import { virtualMachineRegion } from '../../../src/contract/region.ts'
import { priceUsd } from '../../../src/contract/shared.ts'
import { faultOf } from '../../form/read.ts'

export interface JoinValues {
  readonly offering: 'marketplace' | 'virtual-machine'
  /** A model of `--simulate-gpus`. Empty: the real GPUs of the machine. */
  readonly simulated: string
  readonly gpuCount: string
  /** Empty: the default price of simulated GPUs. */
  readonly price: string
  readonly region: string
  /** Empty: three random words. */
  readonly name: string
  /** How many machines can join with the token, and for how many hours. */
  readonly uses: string
  readonly expiresInHours: string
}

export const defaultValues: JoinValues = {
  offering: 'marketplace',
  simulated: '',
  gpuCount: '2',
  price: '1.20',
  region: 'local',
  name: '',
  uses: '1',
  expiresInHours: '24',
}

/** Some of the models that the agent can simulate; it lists all of them when given an unknown one. */
export const simulatedModels = [
  { value: 'h100', label: 'H100' },
  { value: 'h200', label: 'H200' },
  { value: 'b200', label: 'B200' },
  { value: 'a100', label: 'A100' },
  { value: 'l40s', label: 'L40S' },
  { value: 'rtx4090', label: 'RTX 4090' },
] as const

/** Virtual machines can only be ordered with these. */
const orderedModels: ReadonlySet<string> = new Set(['h100', 'h200', 'b200'])
const MAX_GPUS = 64
const regionName = /^[a-z0-9][a-z0-9-]{0,62}$/

type JoinFaults = { readonly [field in keyof JoinValues]?: string | undefined }

export function faultsOf(values: JoinValues): JoinFaults {
  const isSimulated = values.simulated !== ''
  const gpus = /^\d{1,2}$/.test(values.gpuCount) ? Number.parseInt(values.gpuCount, 10) : 0
  const needsPrice = values.offering === 'marketplace' && (!isSimulated || values.price !== '')
  return {
    simulated:
      values.offering === 'virtual-machine' && isSimulated && !orderedModels.has(values.simulated)
        ? 'Virtual machines need H100, H200 or B200 GPUs.'
        : undefined,
    gpuCount: isSimulated && (gpus < 1 || gpus > MAX_GPUS) ? `Enter a number from 1 to ${MAX_GPUS}.` : undefined,
    price: needsPrice ? faultOf(priceUsd, values.price) : undefined,
    region: faultOfRegion(values),
    name:
      values.name === '' || hostName.safeParse(values.name).success
        ? undefined
        : 'Use up to 63 lowercase letters, digits and hyphens.',
    uses:
      values.name !== '' && Number(values.uses) > 1 ? 'Leave the name empty when several machines join.' : undefined,
  }
}

function faultOfRegion({ offering, region }: JoinValues): string | undefined {
  if (offering === 'virtual-machine') {
    return virtualMachineRegion.safeParse(region).success ? undefined : 'Choose a region.'
  }
  return regionName.test(region) ? undefined : 'Use lowercase letters, digits and hyphens.'
}

/** Returns the command. The values must be valid. */
export function joinCommand(values: JoinValues, server: string, token: string): string {
  const isMarketplace = values.offering === 'marketplace'
  const more = [
    ...(values.name === '' ? [] : [`--name ${values.name}`]),
    ...(isMarketplace ? [] : ['--offer virtual-machine']),
    ...(values.region === defaultValues.region ? [] : [`--region ${values.region}`]),
    ...(isMarketplace && values.price !== '' ? [`--price ${values.price}`] : []),
    ...(values.simulated === '' ? [] : [`--simulate-gpus ${values.simulated}:${Number.parseInt(values.gpuCount, 10)}`]),
  ]
  return installCommand(server, { token, more })
}
