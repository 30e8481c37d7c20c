/** Reasons why a model file could not be downloaded. An operator reads them in the state of the model. */
import { asGiven, conflict, invalid, noCapacity, notFound, unavailable } from './reason-entry.ts'

type WrongSize = {
  readonly name: string
  readonly bytes: number
  readonly expectedBytes: number
}

type WrongDigest = {
  readonly name: string
  readonly algorithm: string
  readonly digest: string
  readonly expectedDigest: string
}

type DownloadUrl = {
  readonly url: string
}

function formatBytes(bytes: number): string {
  return `${bytes.toLocaleString('en-US')} bytes`
}

export const downloadReasons = {
  bad_source: invalid(asGiven),
  no_files: invalid(
    ({ model }: { readonly model: string }) => `The model ${model} has no files, and its engine includes none.`,
  ),
  no_hub: invalid(
    ({ source }: { readonly source: string }) => `${source} needs a model hub, but none is configured.`,
    'Set BERTH_HUB_URL.',
  ),
  no_registry: unavailable(
    ({ fault }: { readonly fault: 'unknown' | 'not_http' }) =>
      fault === 'unknown'
        ? 'The npm registry is not set.'
        : 'The address of the npm registry is not an http or https URL.',
    'Set BERTH_NPM_REGISTRY.',
  ),
  package_not_found: notFound(
    ({ name, version }: { readonly name: string; readonly version: string }) =>
      `The npm registry has no ${name}@${version}.`,
  ),
  no_digest: invalid(({ source }: { readonly source: string }) => `The npm registry has no checksum for ${source}.`),
  file_not_found: notFound(({ source, code }: { readonly source: string; readonly code: string | undefined }) =>
    code === undefined ? `${source} does not exist.` : `${source} cannot be read (${code}).`,
  ),
  folder_in_use: conflict(
    ({ model, owner }: { readonly model: string; readonly owner: string }) =>
      `The folder of ${model} is already used by ${owner}.`,
  ),
  address_refused: invalid(({ url, cause }: DownloadUrl & { readonly cause: string }) => `${url}: ${cause}.`),
  unreachable: unavailable(({ url, cause }: DownloadUrl & { readonly cause: string }) => `${url}: ${cause}.`),
  bad_redirect: invalid(({ url, max }: DownloadUrl & { readonly max: number | undefined }) =>
    max === undefined ? `${url} redirects to an invalid address.` : `${url} redirects more than ${max} times.`,
  ),
  bad_status: invalid(
    ({ url, status, cause }: DownloadUrl & { readonly status: number; readonly cause: string | null }) =>
      `${url} returned status ${status}${cause === null ? '' : `: ${cause}`}.`,
  ),
  bad_answer: invalid(({ url, cause }: DownloadUrl & { readonly cause: string }) => `${url} returned ${cause}.`),
  bad_content: invalid(asGiven),
  download_interrupted: unavailable(
    ({ url, cause }: DownloadUrl & { readonly cause: string }) => `${url}: download interrupted (${cause}).`,
  ),
  cancelled: unavailable('The download was cancelled.'),
  wrong_size: invalid(
    ({ name, bytes, expectedBytes }: WrongSize) =>
      `${name} is ${formatBytes(bytes)}; expected ${formatBytes(expectedBytes)}.`,
  ),
  wrong_digest: invalid(
    ({ name, algorithm, digest, expectedDigest }: WrongDigest) =>
      `${name} has the ${algorithm.replace('sha', 'SHA-')} ${digest}; expected ${expectedDigest}. It is not used.`,
  ),
  model_store_full: noCapacity(
    ({
      bytes,
      usedBytes,
      limitBytes,
    }: {
      readonly bytes: number
      readonly usedBytes: number
      readonly limitBytes: number
    }) =>
      `The download needs another ${formatBytes(bytes)}, but the model store already uses ${formatBytes(usedBytes)} of ${formatBytes(limitBytes)}.`,
    'Remove models that are not used, or raise the limit.',
  ),
  disk_full: noCapacity(
    (
      disk:
        | { readonly code: string }
        | { readonly bytes: number; readonly freeBytes: number; readonly reservedBytes: number },
    ) =>
      'code' in disk
        ? `The disk is full (${disk.code}).`
        : `The download needs another ${formatBytes(disk.bytes)}, but the disk has ${formatBytes(disk.freeBytes)} free, ${formatBytes(disk.reservedBytes)} of which are reserved.`,
    'Free some space on the disk.',
  ),
} as const
