/**
 * Parses image names and finds their registry. The daemon is inside a network that the customer is not, so registries
 * are checked (runtimes/docker/registry-rule.ts). The daemon resolves the name again by itself: a DNS name that changes in between is
 * not caught here, only by a firewall.
 */
import { registryHost } from '../domain/registry.ts'
import { NeverStarts } from './runtime.ts'

export interface ImageName {
  /** The name without tag or digest. */
  readonly repository: string
  /** A tag, or a digest with its algorithm. */
  readonly reference: string
  /** The name as people write it: `debian:12`. */
  readonly full: string
  /** undefined: the daemon's default registry. */
  readonly host: string | undefined
}

const MAX_NAME_CHARS = 255
const path = /^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:\/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*$/
const tagForm = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/
const digestForm = /^sha256:[0-9a-f]{64}$/
const hostForm = /^(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:.]+\])(?::[0-9]{1,5})?$/

/** A separate tag takes precedence over one in the name. */
export function parseImageName(name: string, tag: string | null): ImageName {
  const [beforeDigest, digest] = splitLast(name, '@')
  const slash = beforeDigest.lastIndexOf('/')
  const [last, tagInName] = splitLast(beforeDigest.slice(slash + 1), ':')
  const repository = beforeDigest.slice(0, slash + 1) + last
  const reference = tag ?? digest ?? tagInName ?? 'latest'
  const host = registryHost(repository)
  const imagePath = host === undefined ? repository : repository.slice(host.length + 1)
  const isGood =
    repository.length <= MAX_NAME_CHARS &&
    path.test(imagePath) &&
    (host === undefined || hostForm.test(host)) &&
    (digestForm.test(reference) || tagForm.test(reference))
  if (!isGood) throw new NeverStarts('image_invalid', `${quote(name, tag)} is not a valid image name.`)
  return { repository, reference, host, full: `${repository}${reference.includes(':') ? '@' : ':'}${reference}` }
}

/** `debian:12` is short for `docker.io/library/debian:12`. */
export function isSameImage(a: ImageName, b: ImageName): boolean {
  return withoutDefaults(a) === withoutDefaults(b)
}

function withoutDefaults({ full }: ImageName): string {
  return full.replace(/^(?:index\.)?docker\.io\//, '').replace(/^library\//, '')
}

function splitLast(text: string, at: string): [string, string | undefined] {
  const position = text.lastIndexOf(at)
  return position === -1 ? [text, undefined] : [text.slice(0, position), text.slice(position + 1)]
}

function quote(name: string, tag: string | null): string {
  return JSON.stringify(tag === null ? name : `${name}:${tag}`).slice(0, MAX_NAME_CHARS)
}
