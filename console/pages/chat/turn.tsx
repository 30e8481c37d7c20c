/** One question and its answer, as plain text with code blocks. */
import { memo } from 'react'
import { count, number } from '../../../src/view/number.ts'
import { Button, Spinner } from '../../ui/button.tsx'
import { CopyButton } from '../../ui/copy.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import type { Turn } from './conversation.ts'
import { RequestCost } from '../playground/cost.tsx'

interface ChatTurnProps {
  readonly turn: Turn
  /** Whether an answer in this conversation is in progress. */
  readonly isBusy: boolean
  readonly onEdit: (turn: Turn) => void
  readonly onAskAgain: (turn: Turn) => void
}

export const ChatTurn = memo(function ChatTurn({ turn, isBusy, onEdit, onAskAgain }: ChatTurnProps) {
  const { prompt, text, state, error, model } = turn
  const isOver = state !== 'waiting' && state !== 'streaming'
  return (
    <li className="flex flex-col gap-3">
      <div className="flex flex-col gap-1 self-end rounded-lg bg-accent-soft px-3 py-2 sm:max-w-[85%]">
        <p className="sr-only">You</p>
        <p className="text-sm break-words whitespace-pre-wrap">{prompt}</p>
      </div>
      <div className="flex min-w-0 flex-col gap-2" aria-busy={!isOver}>
        <p className="text-xs font-medium text-muted">{model}</p>
        {text === '' && !isOver ? (
          <p className="flex items-center gap-2 text-sm text-muted">
            <Spinner /> {state === 'waiting' ? 'Waiting for the model …' : 'Answering …'}
          </p>
        ) : (
          <AnswerText text={text} />
        )}
        {error !== null && <ErrorNotice error={error} onRetry={isBusy ? undefined : () => onAskAgain(turn)} />}
        {isOver && <TurnFacts turn={turn} />}
        {isOver && (
          <div className="-ml-3 flex flex-wrap gap-1">
            <Button look="quiet" disabled={isBusy} onClick={() => onEdit(turn)}>
              Edit question
            </Button>
            {error === null && (
              <Button look="quiet" disabled={isBusy} onClick={() => onAskAgain(turn)}>
                Ask again
              </Button>
            )}
            {text !== '' && (
              <CopyButton text={text} label="Copy answer" className="border-transparent bg-transparent text-muted" />
            )}
          </div>
        )}
      </div>
    </li>
  )
})

function AnswerText({ text }: { text: string }) {
  return (
    <div className="flex flex-col gap-2 text-sm leading-6">
      {splitFences(text).map(({ isCode, body }, index) =>
        isCode ? (
          // Parts only grow at the end, so the index is a stable key.
          // oxlint-disable-next-line react/no-array-index-key
          <pre key={index} className="overflow-x-auto rounded-md bg-sunken p-3 font-mono text-sm" tabIndex={0}>
            {body}
          </pre>
        ) : (
          // oxlint-disable-next-line react/no-array-index-key
          <p key={index} className="break-words whitespace-pre-wrap">
            {body}
          </p>
        ),
      )}
    </div>
  )
}

interface Part {
  readonly isCode: boolean
  readonly body: string
}

/** Splits an answer at its code fences. A fence that is never closed extends to the end of the text. */
function splitFences(text: string): Part[] {
  const parts: Part[] = []
  let [lines, isCode]: [string[], boolean] = [[], false]
  const endPart = (): void => {
    const body = isCode ? lines.join('\n') : lines.join('\n').trim()
    if (body !== '') parts.push({ isCode, body })
    lines = []
    isCode = !isCode
  }
  for (const line of text.split('\n')) {
    if (/^ {0,3}```/.test(line)) endPart()
    else lines.push(line)
  }
  endPart()
  return parts
}

/** `12 tokens in (8 cached) · 40 out · first token after 0.1 s · 35 tokens/s · $0.0001`. */
function TurnFacts({ turn }: { turn: Turn }) {
  const { usage, firstTokenMs, streamMs, state, finishReason, requestId } = turn
  const cached = usage?.prompt_tokens_details?.cached_tokens ?? 0
  const parts = [
    ...(state === 'stopped' ? ['Stopped'] : []),
    ...(finishReason === 'length' ? ['Cut off at max tokens'] : []),
    ...(usage === null
      ? []
      : [
          `${count(usage.prompt_tokens, 'token')} in${cached === 0 ? '' : ` (${number(cached)} cached)`}`,
          `${number(usage.completion_tokens)} out`,
        ]),
    ...(firstTokenMs === null ? [] : [`first token after ${(firstTokenMs / 1_000).toFixed(2)} s`]),
    ...(usage === null || streamMs === null || usage.completion_tokens < 2 ? [] : [speedOf(usage, streamMs)]),
  ]
  return (
    <p className="text-xs text-muted tabular-nums">
      {parts.map((part) => (
        <span key={part}>{part} · </span>
      ))}
      <RequestCost requestId={requestId} />
    </p>
  )
}

/** The first token is not counted: it ends the waiting time, and streaming begins after it. */
function speedOf({ completion_tokens: tokens }: { readonly completion_tokens: number }, streamMs: number): string {
  const perSecond = (tokens - 1) / (Math.max(streamMs, 1) / 1_000)
  return `${number(perSecond < 10 ? Math.round(perSecond * 10) / 10 : Math.round(perSecond))} tokens/s`
}
