/**
 * The parts of an answer one after another, for protocols in which a part ends before the next begins. Engines mix them:
 * parallel calls come by turns, and text comes within a call. What does not belong to an open call waits until the
 * arguments of that call are complete, or until the end.
 */
import type { ChatDelta } from './chat-delta.ts'
import { parseObject } from './usage.ts'

export type AnswerPart =
  | { readonly kind: 'reasoning' | 'text' | 'refusal' }
  | { readonly kind: 'call'; readonly id: string; readonly name: string }

export type PartStep =
  | { readonly step: 'begin'; readonly part: AnswerPart }
  /** A piece of the open part: text, or arguments. Never empty. */
  | { readonly step: 'add'; readonly text: string; readonly logprobs: readonly unknown[] }
  | { readonly step: 'end' }

interface OpenPart {
  readonly kind: AnswerPart['kind']
  /** undefined: not a call. */
  readonly call: number | undefined
  json: string
  isComplete: boolean
}

export class PartSequence {
  #open: OpenPart | undefined
  #waiting: ChatDelta[] = []
  readonly #ended = new Set<number>()

  add(delta: ChatDelta): PartStep[] {
    const steps: PartStep[] = []
    this.#take(delta, steps)
    return steps
  }

  /** Ends the sequence, and returns the steps that were held back. */
  end(): PartStep[] {
    const steps: PartStep[] = []
    do {
      this.#close(steps)
      this.#takeWaiting(steps)
    } while (this.#open !== undefined)
    return steps
  }

  #take(delta: ChatDelta, steps: PartStep[]): void {
    if (this.#belongsToOpen(delta)) return this.#addTo(delta, steps)
    if (delta.kind === 'arguments' && this.#ended.has(delta.call)) {
      if (delta.text.trim() === '') return
      throw new Error('arguments of a call that has ended')
    }
    if (this.#isWithinCall()) return void this.#waiting.push(delta)
    this.#close(steps)
    if (this.#waiting.length === 0) return this.#begin(delta, steps)
    this.#waiting.push(delta)
    this.#takeWaiting(steps)
  }

  #takeWaiting(steps: PartStep[]): void {
    for (const delta of this.#waiting.splice(0)) this.#take(delta, steps)
  }

  #belongsToOpen(delta: ChatDelta): boolean {
    if (this.#open === undefined || delta.kind === 'call') return false
    return delta.kind === 'arguments' ? delta.call === this.#open.call : delta.kind === this.#open.kind
  }

  /** A call is open, and its arguments are incomplete. */
  #isWithinCall(): boolean {
    const open = this.#open
    if (open?.call === undefined || open.isComplete) return false
    open.isComplete = open.json.trimEnd().endsWith('}') && parseObject(open.json) !== undefined
    return !open.isComplete
  }

  #begin(delta: ChatDelta, steps: PartStep[]): void {
    if (delta.kind === 'arguments') throw new Error('arguments of a call that has not begun')
    const { kind } = delta
    const call = kind === 'call' ? delta.call : undefined
    this.#open = { kind, call, json: '', isComplete: false }
    steps.push({ step: 'begin', part: kind === 'call' ? { kind, id: delta.id, name: delta.name } : { kind } })
    if (kind !== 'call') this.#addTo(delta, steps)
  }

  #addTo(delta: ChatDelta, steps: PartStep[]): void {
    if (delta.kind === 'call') return
    if (this.#open?.call !== undefined) this.#open.json += delta.text
    steps.push({ step: 'add', text: delta.text, logprobs: delta.kind === 'text' ? delta.logprobs : [] })
  }

  #close(steps: PartStep[]): void {
    if (this.#open === undefined) return
    if (this.#open.call !== undefined) this.#ended.add(this.#open.call)
    this.#open = undefined
    steps.push({ step: 'end' })
  }
}
