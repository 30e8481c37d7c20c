/** A template as typed: fields of the form, and as JSON what has no field. */
import { portText } from '../../../src/view/ordered.ts'
import type { Reply } from '../../../src/client/client.ts'
import { optionalNumber, optionalText } from '../../form/read.ts'
import { advancedOf, noAdvanced } from '../rent/advanced.ts'
import { shellText } from '../rent/like.ts'
import { portsOf } from '../rent/ports.ts'
import { imageText, templateOfText } from './text.ts'

export type Template = Reply<'getTemplate'>

export const noDraft = {
  name: '',
  summary: '',
  icon: 'box',
  visibility: 'private',
  image: '',
  ports: '',
  env: '',
  start: '',
  onStart: '',
  diskGb: '',
  shmGb: '',
  minVramGb: '',
  readme: '',
  /** All fields but the name and the visibility, while they are edited as JSON. */
  json: '',
  isJson: false,
}
export type Draft = typeof noDraft

const ownFields = [
  'name',
  'summary',
  'icon',
  'image',
  'ports',
  'env',
  'command',
  'onStart',
  'diskGb',
  'shmGb',
  'minVramGb',
  'readme',
]
const recordFields = ['id', 'version', 'owner', 'visibility', 'createdAt', 'updatedAt', 'secrets', 'usedBy']

export function draftOf(template: Partial<Template> | undefined): Draft {
  if (template === undefined) return noDraft
  const { image, ports = [], env = {}, command, diskGb, shmGb, minVramGb } = template
  return {
    ...noDraft,
    name: template.name ?? '',
    summary: template.summary ?? '',
    icon: template.icon ?? 'box',
    visibility: template.visibility === 'link' ? 'link' : 'private',
    image: image === undefined ? '' : imageText({ image }),
    ports: ports.map(portText).join(', '),
    env: Object.entries(env)
      .map(([name, value]) => `${name}=${value}`)
      .join('\n'),
    start: command === undefined ? '' : shellText(command),
    onStart: template.onStart ?? '',
    diskGb: textOf(diskGb),
    shmGb: textOf(shmGb),
    minVramGb: textOf(minVramGb),
    readme: template.readme ?? '',
  }
}

/** Fields that the form does not show: parameters, files, arguments and the like. */
export function restOf(template: object | undefined): Record<string, unknown> {
  const isOther = ([name]: [string, unknown]): boolean => !ownFields.includes(name) && !recordFields.includes(name)
  return Object.fromEntries(Object.entries(template ?? {}).filter(isOther))
}

/** The fields of a version. `before`: an emptied field is sent as empty, since an absent one stays as it was. */
export function fieldsOf(draft: Draft, others: Record<string, unknown>, before?: Template): Record<string, unknown> {
  if (draft.isJson) return templateOfText(draft.json)
  const { env, command, onStart, diskGb, shmGb } = advancedOf({ ...noAdvanced, ...draft })
  const isSameStart = before?.command !== undefined && shellText(before.command) === draft.start
  const fields = {
    ...others,
    summary: optionalText(draft.summary) ?? emptied(before?.summary, ''),
    icon: draft.icon,
    image: imageOf(draft.image),
    ports: portsOf(draft.ports) ?? emptied(before?.ports, []),
    env: env ?? emptied(before?.env, {}),
    command: isSameStart ? before.command : command,
    onStart: onStart ?? emptied(before?.onStart, ''),
    diskGb,
    shmGb,
    minVramGb: optionalNumber(draft.minVramGb) ?? emptied(before?.minVramGb, 0),
    readme: optionalText(draft.readme) ?? emptied(before?.readme, ''),
  }
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}

function emptied<T>(before: unknown, empty: T): T | undefined {
  return before === undefined ? undefined : empty
}

function textOf(value: number | undefined): string {
  return value === undefined ? '' : String(value)
}

/** Splits `name:tag`. The port of a registry is not a tag. */
function imageOf(typed: string): { name: string; tag?: string } | undefined {
  const text = typed.trim()
  if (text === '') return undefined
  const at = text.lastIndexOf(':')
  return at > text.lastIndexOf('/') ? { name: text.slice(0, at), tag: text.slice(at + 1) } : { name: text }
}
