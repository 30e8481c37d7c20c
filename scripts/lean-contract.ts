/**
 * Leaves the texts of the contract (summaries, descriptions, names for the API reference) out of the console, which
 * never shows them: a tenth of its first load.
 */
import type { Plugin } from 'vite'

interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
}

interface Call extends Node {
  readonly callee: Node & { readonly object: Node; readonly property: Node & { readonly name?: string } }
  readonly arguments: readonly Node[]
}

interface Property extends Node {
  readonly key: Node & { readonly name?: string }
  readonly value: Node
}

interface Edit {
  readonly start: number
  readonly end: number
  readonly text: string
}

const texts = new Set(['summary', 'description'])
const isText = ({ type }: Node): boolean => type === 'Literal' || type === 'TemplateLiteral'

/** What to remove from one node: `.describe(…)`, `.meta(…)`, or the text of an operation. */
function editOf(node: Node): Edit | undefined {
  if (node.type === 'CallExpression') {
    const { callee, arguments: given, end } = node as Call
    if (callee.type !== 'MemberExpression' || given.length !== 1) return undefined
    const isDocumentation = callee.property.name === 'describe' || callee.property.name === 'meta'
    return isDocumentation ? { start: callee.object.end, end, text: '' } : undefined
  }
  if (node.type !== 'Property') return undefined
  const { key, value } = node as Property
  return texts.has(key.name ?? '') && isText(value) ? { start: value.start, end: value.end, text: "''" } : undefined
}

function findEdits(node: unknown, edits: Edit[]): void {
  if (Array.isArray(node)) {
    for (const one of node) findEdits(one, edits)
    return
  }
  if (typeof node !== 'object' || node === null) return
  const edit = 'type' in node && typeof node.type === 'string' ? editOf(node as Node) : undefined
  if (edit === undefined) findEdits(Object.values(node), edits)
  else {
    edits.push(edit)
    if (node instanceof Object && 'callee' in node) findEdits((node as unknown as Call).callee.object, edits)
  }
}

export function leanContract(): Plugin {
  return {
    name: 'lean-contract',
    apply: 'build',
    enforce: 'post',
    transform(code, id) {
      if (!id.includes('/src/contract/')) return null
      const edits: Edit[] = []
      findEdits(this.parse(code), edits)
      let lean = code
      for (const { start, end, text } of edits.toSorted((a, b) => b.start - a.start)) {
        lean = lean.slice(0, start) + text + lean.slice(end)
      }
      return { code: lean, map: null }
    },
  }
}
