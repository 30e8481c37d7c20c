/** Chat with a model. Conversations stay in the browser; each answer shows its usage and cost. */
import { getRouteApi } from '@tanstack/react-router'
import {
  useCallback,
  useEffect,
  useEffectEvent,
  useRef,
  useState,
  type FormEvent,
  type KeyboardEvent,
  type ReactNode,
} from 'react'
import { count } from '../../../src/view/number.ts'
import type { Model } from '../../api/inference.ts'
import { Button } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { cx } from '../../ui/class.ts'
import { Empty } from '../../ui/empty.tsx'
import { SelectField, TextArea } from '../../ui/field.tsx'
import { Page } from '../../ui/page.tsx'
import { requestOf, useConversation, type ChatSettings, type Conversation, type Turn } from './conversation.ts'
import { ChatHistory } from './history.tsx'
import { turnsOf, useKept, type Kept } from './kept.ts'
import { ChatParameters, readSampling } from './parameters.tsx'
import { ChatTurn } from './turn.tsx'
import { CodeButton } from '../playground/code.tsx'
import { TotalCost } from '../playground/cost.tsx'
import { ModelField, WithModel } from '../playground/model.tsx'
import type { Typed } from '../playground/parameter.tsx'
import { chatProtocols } from '../playground/protocol.ts'
import { PlaygroundSkeleton } from '../playground/skeleton.tsx'

const route = getRouteApi('/shell/chat')

/** The prompt in the copied code if nothing was typed. */
const EXAMPLE = 'Name three rivers.'
/** Within this distance of the end, the view follows the answer. */
const END_PX = 80

export function ChatPage() {
  const { model: modelId } = route.useSearch()
  const history = useKept()
  return (
    <Page intro="Try a model, see what it costs, and copy the request as code. Conversations stay in this browser.">
      <WithModel kind="chat" modelId={modelId} skeleton={<PlaygroundSkeleton />}>
        {(model, models) => <Chat key={history.current.id} model={model} models={models} history={history} />}
      </WithModel>
    </Page>
  )
}

interface ChatProps {
  readonly model: Model
  readonly models: readonly Model[]
  readonly history: Kept
}

function Chat({ model, models, history }: ChatProps) {
  const { with: secondId } = route.useSearch()
  const second = models.find(({ id }) => id === secondId)
  const conversation = useConversation(turnsOf(history.current))
  /** The conversation with the second model. It is not stored. */
  const other = useConversation()
  const [draft, setDraft] = useState('')
  const [system, setSystem] = useState(history.current.system)
  const [typed, setTyped] = useState<Typed>({})
  const { sampling, faults } = readSampling(typed)
  const { turns } = conversation
  const isBusy = conversation.isBusy || other.isBusy
  useKeeping(history, conversation, system)
  const settings = { model: model.id, system, sampling }
  const isWrong = Object.keys(faults).length > 0
  const edit = (turn: Turn): void => {
    conversation.cutAt(turn.id)
    setDraft(turn.prompt)
  }
  const send = (): void => {
    conversation.ask(draft, settings)
    if (second !== undefined) other.ask(draft, { ...settings, model: second.id })
    setDraft('')
  }
  const stop = (): void => [conversation, other].forEach((one) => one.stop())
  const clear = (): void => [conversation, other].forEach(({ turns: [first], cutAt }) => first && cutAt(first.id))
  const code = (
    <CodeButton disabled={isWrong} make={() => chatProtocols(location.origin, shownRequest(settings, turns, draft))} />
  )
  const shared = { isBusy, onEdit: edit }
  return (
    <div className="grid items-start gap-5 lg:grid-cols-[minmax(0,1fr)_20rem]">
      <Card
        title="Conversation"
        className="flex flex-col lg:h-[calc(100dvh-11rem)] lg:min-h-96"
        actions={<Actions code={code} canClear={!isBusy && turns.length > 0} onClear={clear} onNew={history.begin} />}
      >
        <div className={cx('grid min-h-0 min-w-0 flex-1 gap-4', second !== undefined && 'md:grid-cols-2')}>
          <Turns
            {...shared}
            label="Conversation"
            turns={turns}
            onAskAgain={(turn) => conversation.askAgain(turn.id, settings)}
          />
          {second !== undefined && (
            <Turns
              {...shared}
              label={`Conversation with ${second.id}`}
              turns={other.turns}
              onAskAgain={(turn) => other.askAgain(turn.id, { ...settings, model: second.id })}
            />
          )}
        </div>
        <Total turns={turns} others={other.turns} />
        <Composer draft={draft} onDraft={setDraft} isBusy={isBusy} isWrong={isWrong} onStop={stop} onSend={send} />
      </Card>
      <div className="flex min-w-0 flex-col gap-4 lg:max-h-[calc(100dvh-11rem)] lg:overflow-y-auto">
        <ChatHistory history={history} isBusy={isBusy} />
        <Card title="Model and parameters">
          <div className="flex flex-col gap-4">
            <Models model={model} models={models} second={second} isBusy={isBusy} />
            <ChatParameters system={system} onSystem={setSystem} typed={typed} onTyped={setTyped} />
          </div>
        </Card>
      </div>
    </div>
  )
}

interface ActionsProps {
  readonly code: ReactNode
  readonly canClear: boolean
  readonly onClear: () => void
  readonly onNew: () => void
}

function Actions({ code, canClear, onClear, onNew }: ActionsProps) {
  return (
    <div className="flex flex-wrap gap-2">
      {code}
      <Button onClick={onClear} disabled={!canClear}>
        Clear
      </Button>
      <Button onClick={onNew} disabled={!canClear}>
        New
      </Button>
    </div>
  )
}

function Total({ turns, others }: { turns: readonly Turn[]; others: readonly Turn[] }) {
  if (turns.length === 0) return null
  return (
    <p className="py-2 text-right text-xs text-muted tabular-nums">
      {count(turns.length, 'question')}, <TotalCost requestIds={requestIdsOf([...turns, ...others])} /> in total
    </p>
  )
}

interface ModelsProps {
  readonly model: Model
  readonly models: readonly Model[]
  /** The model to compare with. */
  readonly second: Model | undefined
  readonly isBusy: boolean
}

function Models({ model, models, second, isBusy }: ModelsProps) {
  const navigate = route.useNavigate()
  const change = (part: { readonly model?: string; readonly with?: string | undefined }): void =>
    void navigate({ search: (before) => ({ ...before, ...part }), replace: true })
  const others = models.filter(({ id }) => id !== model.id).map(({ id }) => ({ value: id, label: id }))
  return (
    <>
      <ModelField model={model} models={models} disabled={isBusy} onChoose={(id) => change({ model: id })} />
      {models.length > 1 && (
        <SelectField
          label="Compare with"
          value={second?.id ?? ''}
          disabled={isBusy}
          choices={[{ value: '', label: 'No other model' }, ...others]}
          onChange={(event) => change({ with: event.target.value || undefined })}
        />
      )}
    </>
  )
}

/** Stores the conversation each time an answer has ended. */
function useKeeping(history: Kept, { turns, isBusy }: Conversation, system: string): void {
  const keep = useEffectEvent(() => history.keep(turns, system))
  const previousTurns = useRef(turns)
  useEffect(() => {
    if (isBusy || turns === previousTurns.current) return
    previousTurns.current = turns
    keep()
  }, [turns, isBusy])
}

/** The request for the draft; without a draft, the last one sent, or an example. */
function shownRequest(settings: ChatSettings, turns: readonly Turn[], draft: string) {
  if (draft.trim() !== '') return requestOf(settings, turns, draft)
  return requestOf(settings, turns.slice(0, -1), turns.at(-1)?.prompt ?? EXAMPLE)
}

/** The ids of finished requests; the others have no cost yet. */
function requestIdsOf(turns: readonly Turn[]): string[] {
  return turns.filter(({ state }) => state !== 'waiting' && state !== 'streaming').map(({ requestId }) => requestId)
}

interface TurnsProps {
  readonly label: string
  readonly turns: readonly Turn[]
  readonly isBusy: boolean
  readonly onEdit: (turn: Turn) => void
  readonly onAskAgain: (turn: Turn) => void
}

/** Follows the answer unless the reader has scrolled up. */
function Turns({ label, turns, isBusy, onEdit, onAskAgain }: TurnsProps) {
  const box = useRef<HTMLDivElement>(null)
  const isAtEnd = useRef(true)
  // Stable callbacks, so that finished turns do not render again for each token.
  const latest = useRef({ onEdit, onAskAgain })
  useEffect(() => {
    latest.current = { onEdit, onAskAgain }
  })
  const edit = useCallback((turn: Turn) => latest.current.onEdit(turn), [])
  const askAgain = useCallback((turn: Turn) => latest.current.onAskAgain(turn), [])
  useEffect(() => {
    const { current } = box
    if (current !== null && isAtEnd.current) current.scrollTop = current.scrollHeight
  })
  return (
    <div
      ref={box}
      role="log"
      aria-label={label}
      tabIndex={0}
      className="min-h-64 min-w-0 flex-1 lg:overflow-y-auto lg:pr-1"
      onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
        isAtEnd.current = scrollHeight - scrollTop - clientHeight < END_PX
      }}
    >
      {turns.length === 0 ? (
        <Empty title="Ask a question">The answer streams in, with its tokens, speed and cost.</Empty>
      ) : (
        <ul className="flex flex-col gap-6">
          {turns.map((turn) => (
            <ChatTurn key={turn.id} turn={turn} isBusy={isBusy} onEdit={edit} onAskAgain={askAgain} />
          ))}
        </ul>
      )}
    </div>
  )
}

interface ComposerProps {
  readonly draft: string
  readonly onDraft: (draft: string) => void
  readonly isBusy: boolean
  /** Whether a parameter is invalid. */
  readonly isWrong: boolean
  readonly onSend: () => void
  readonly onStop: () => void
}

function Composer({ draft, onDraft, isBusy, isWrong, onSend, onStop }: ComposerProps) {
  const canSend = draft.trim() !== '' && !isBusy && !isWrong
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    if (canSend) onSend()
  }
  const sendOnEnter = (event: KeyboardEvent): void => {
    // Enter ends the composition of a character.
    if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return
    event.preventDefault()
    if (canSend) onSend()
  }
  return (
    <form onSubmit={submit} className="mt-3 flex items-start gap-2 border-t border-line pt-3">
      <TextArea
        label="Message"
        hideLabel
        className="min-w-0 flex-1"
        rows={2}
        value={draft}
        placeholder="Message"
        hint={isWrong ? 'Fix the marked parameter first.' : 'Press Enter to send, Shift+Enter for a new line.'}
        onChange={(event) => onDraft(event.target.value)}
        onKeyDown={sendOnEnter}
      />
      {/* Two separate buttons: if one button changed its role, the click on Stop would submit the form. */}
      {isBusy ? (
        <Button key="stop" onClick={onStop}>
          Stop
        </Button>
      ) : (
        <Button key="send" type="submit" look="primary" disabled={!canSend}>
          Send
        </Button>
      )}
    </form>
  )
}
