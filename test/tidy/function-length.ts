/**
 * Functions that are longer than the limit. A table of handlers outside of functions counts like a function. The
 * exceptions may only shrink: each has the length that its function has today.
 */
import { isCode, lineOf, type Source } from './source.ts'

export const MAX_FUNCTION_LINES = 70

/** By `path name`: the number of lines. */
export const longFunctions: Readonly<Record<string, number>> = {
  'console/pages/rent/container.tsx RentDialog': 93,
  'console/shell/search-result.ts useSearchResults': 77,
  'src/domain/notification.ts describers': 89,
  'src/drivers/conformance-elastic.ts elasticTests': 92,
  'src/drivers/conformance-volumes.ts volumeConformance': 148,
  'src/drivers/conformance-volumes.ts volumeConformance > describe': 142,
  'src/drivers/conformance.ts driverConformance': 86,
  'src/drivers/conformance.ts driverConformance > describe': 74,
  'src/engines/process/engine-host.ts makeEngineHost': 76,
  'src/gateway/media/media.ts serve': 87,
  'src/gateway/money/admission.ts makeAdmission': 103,
}

interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
}

type Field = Node & Readonly<Record<string, unknown>>

/** `path name` with the number of lines, for each that exceeds the limit. */
export function findLongFunctions(source: Source): Map<string, number> {
  const long = new Map<string, number>()
  if (!isCode(source.path)) return long
  const visit = (node: Field, name: string, isInFunction: boolean): void => {
    if (isFunction(node) || (!isInFunction && isHandlerTable(node))) {
      const lines = lineOf(source, node.end) - lineOf(source, node.start) + 1
      if (lines > MAX_FUNCTION_LINES) long.set(`${source.path} ${name}`, lines)
    }
    for (const child of childrenOf(node)) visit(child, nameOf(child, node, name), isInFunction || isFunction(node))
  }
  visit(source.program as unknown as Field, '', false)
  return long
}

function isFunction({ type }: Node): boolean {
  return type === 'FunctionDeclaration' || type === 'FunctionExpression' || type === 'ArrowFunctionExpression'
}

function isHandlerTable({ type, properties }: Field): boolean {
  if (type !== 'ObjectExpression' || !Array.isArray(properties)) return false
  return (properties as Field[]).some(({ value }) => isNode(value) && isFunction(value))
}

/** Functions without a name have that of the function around them, and of what they are passed to. */
function nameOf(child: Field, parent: Field, outer: string): string {
  const name = [child['id'], parent['id'], parent['key']].map(textOf).find((one) => one !== '')
  if (name !== undefined) return name
  return parent.type === 'CallExpression' && isFunction(child) ? `${outer} > ${textOf(parent['callee'])}` : outer
}

function textOf(node: unknown): string {
  if (!isNode(node)) return ''
  const { name, value, object, property } = node
  if (node.type === 'MemberExpression') return `${textOf(object)}.${textOf(property)}`
  return typeof name === 'string' ? name : typeof value === 'string' ? value : ''
}

function childrenOf(node: Field): Field[] {
  return Object.values(node).flatMap((value) =>
    Array.isArray(value) ? value.filter(isNode) : isNode(value) ? [value] : [],
  )
}

function isNode(value: unknown): value is Field {
  return typeof value === 'object' && value !== null && 'type' in value && 'start' in value
}
