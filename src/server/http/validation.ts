/** Validates input against the contract: reports all faults at once, each with the path of its field. */
import type { z } from 'zod'
import { findFlaw } from '../../base/json.ts'
import type { InputIssue } from '../../contract/error-form.ts'
import { issueText } from '../../contract/issue-text.ts'

export type Validated =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly issues: readonly InputIssue[] }

export function validate(schema: z.ZodType | undefined, input: unknown): Validated {
  if (schema === undefined) return { ok: true, value: undefined }
  const flaw = findFlaw(input)
  if (flaw !== undefined) return { ok: false, issues: [{ ...flaw, malformed: false, input: null }] }
  const parsed = schema.safeParse(input, { error: issueText })
  if (parsed.success) return { ok: true, value: parsed.data }
  return { ok: false, issues: parsed.error.issues.flatMap((issue) => flatten(issue, input)) }
}

const malformedCodes = new Set(['invalid_type', 'unrecognized_keys', 'invalid_union', 'invalid_key', 'invalid_element'])

type RawIssue = z.core.$ZodIssue

/**
 * Chooses among the issues of a union, which reports every branch. The intended branch is the one whose type matches
 * the input, else the one that matched furthest.
 */
function flatten(issue: RawIssue, root: unknown, prefix: readonly PropertyKey[] = []): InputIssue[] {
  const path = [...prefix, ...issue.path]
  if (issue.code === 'invalid_union' && issue.errors.length > 0) {
    const intended = [...issue.errors].sort(compareBranches)[0] ?? []
    if (depth(intended) > 0 || intended.some((one) => !malformedCodes.has(one.code))) {
      return intended.flatMap((one) => flatten(one, root, path))
    }
  }
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => toIssue(issue, [...path, key], root))
  }
  return [toIssue(issue, path, root)]
}

function compareBranches(a: readonly RawIssue[], b: readonly RawIssue[]): number {
  const [inA, inB] = [mistypes(a), mistypes(b)]
  return Number(inA > 0) - Number(inB > 0) || depth(b) - depth(a) || inA - inB || a.length - b.length
}

function depth(issues: readonly RawIssue[]): number {
  return Math.max(0, ...issues.map((issue) => issue.path.length))
}

function mistypes(issues: readonly RawIssue[]): number {
  return issues.filter((issue) => malformedCodes.has(issue.code)).length
}

function toIssue(issue: RawIssue, path: readonly PropertyKey[], root: unknown): InputIssue {
  const input = valueAt(root, path)
  return {
    code: issue.code ?? 'custom',
    path: path.map((part) => (typeof part === 'number' ? part : String(part))),
    message: issue.message,
    malformed: malformedCodes.has(issue.code ?? '') || isMistypedChoice(issue, input),
    input,
  }
}

/** A number or nothing in place of a string choice is mistyped, not out of range. */
function isMistypedChoice(issue: RawIssue, input: unknown): boolean {
  return issue.code === 'invalid_value' && !issue.values.some((value) => typeof value === typeof input)
}

function valueAt(root: unknown, path: readonly PropertyKey[]): unknown {
  let value = root
  for (const part of path) {
    if (typeof value !== 'object' || value === null) return null
    value = (value as Record<PropertyKey, unknown>)[part]
  }
  // Echoed to the sender, so long input is cut.
  return typeof value === 'string' && value.length > 200 ? `${value.slice(0, 200)}…` : (value ?? null)
}
