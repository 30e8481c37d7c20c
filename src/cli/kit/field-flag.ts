/**
 * Translates names of API fields in the server's errors into flags of the command that was typed. Flags from the
 * contract are known to the command; the table contains the others.
 */
import type { Command } from 'commander'
import { ApiError } from '../../client/error.ts'
import { flagFor, type Source } from './input.ts'
import type { Row } from './row-type.ts'

const ownFlags: Readonly<Record<string, string>> = {
  nextCursor: '--cursor',
  autoTerminateAt: '--hours',
  auto_terminate_at: '--hours',
  spending_limit_usd: '--spending-limit',
  spendingLimitUsd: '--spending-limit',
  termPeriodDays: '--days',
  convertToOnDemandOnExpiry: '--terminate-after-term',
  templateId: '--template',
  secrets: '--allow-secret',
  files: '--file',
  diskGb: '--disk',
  shmGb: '--shm',
  ports: '--port',
  volumes: '--mount',
  storageVolume: '--volume',
  registryCredentialId: '--registry',
  hourlyBudgetUsd: '--hourly-budget',
  gpuCount: '--count',
  gpu_count: '--count',
  gpuType: '--gpu',
  node_name: '--machine',
  networkType: '--network',
}

/** A field name in a sentence: `scopeValue`, or in backticks, with or without a value. */
const FIELD = /`([a-z]\w*)(?:: "[^"`]*")?`|\b([a-z]+(?:[A-Z][a-z]*)+)\b/g

/** undefined: the command has no flag for the field. */
export function flagOf(
  row: Row,
  sources: readonly Source[],
  command: Command,
  path: readonly PropertyKey[],
): string | undefined {
  const knownFlag = flagFor(row, sources, path)
  if (knownFlag !== undefined) return knownFlag
  const field = String(path[0] ?? '')
  const words = field.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`).replaceAll('_', '-')
  return [ownFlags[field], `--${words}`].find((flag) => command.options.some(({ long }) => long === flag))
}

/** The error with the flags of the command in its message. */
export function withFlags(error: ApiError, flag: (path: readonly string[]) => string | undefined): ApiError {
  const message = error.message.replaceAll(FIELD, (text, quoted?: string, bare?: string) => {
    return flag([quoted ?? bare ?? '']) ?? text
  })
  const { status, code, reason, issues, requestId, retryAfterMs } = error
  return new ApiError(message, {
    status,
    code,
    issues,
    ...(reason === undefined ? {} : { reason }),
    ...(requestId === undefined ? {} : { requestId }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  })
}
