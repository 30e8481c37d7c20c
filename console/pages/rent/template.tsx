/** Templates in the rent forms. A template is chosen first, then the machine; the form asks for its parameters. */
import { useId } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { cx } from '../../ui/class.ts'
import { CheckField, TextField } from '../../ui/field.tsx'
import { Icon, type IconName } from '../../ui/icon.tsx'
import { imageText } from '../templates/text.ts'

export type Template = Reply<'getTemplate'>

export const templateIcons: Readonly<Record<NonNullable<Template['icon']>, IconName>> = {
  box: 'cube',
  terminal: 'terminal',
  flame: 'sparkle',
  notebook: 'book',
  message: 'chat',
  image: 'image',
  chart: 'chart',
  code: 'terminal',
}

interface Templates {
  readonly templates: readonly Template[]
  readonly chosen: Template | undefined
  readonly isLoading: boolean
}

/** Lists the account's templates first. A template of another account is not listed, but a link can name it. */
export function useTemplates(chosenId: string | undefined): Templates {
  const mayRead = useMay('compute:read')
  const { data, isLoading } = useCall('listTemplates', undefined, { enabled: mayRead })
  const listed: readonly Template[] = data?.templates ?? []
  const isLinked = data !== undefined && chosenId !== undefined && !listed.some(({ id }) => id === chosenId)
  const linked = useCall('getTemplate', { params: { id: chosenId ?? '' } }, { enabled: mayRead && isLinked })
  const rank = { account: 0, other: 1, operator: 2 } as const
  const all = isLinked && linked.data !== undefined ? [...listed, linked.data] : listed
  const templates = all.toSorted((a, b) => rank[a.owner] - rank[b.owner])
  return { templates, chosen: templates.find(({ id }) => id === chosenId), isLoading: isLoading || linked.isLoading }
}

/** The id with the version, so that the order uses the version that was shown. */
export function templateIdOf(template: Template | undefined): string | undefined {
  return template === undefined ? undefined : `${template.id}@${template.version}`
}

interface TemplateGalleryProps {
  readonly templates: readonly Template[]
  /** The id of the chosen template; undefined: none. */
  readonly chosen: string | undefined
  readonly onChoose: (id: string | undefined) => void
}

/** A row of templates that scrolls sideways. */
export function TemplateGallery({ templates, chosen, onChoose }: TemplateGalleryProps) {
  const name = useId()
  if (templates.length === 0) return null
  return (
    <fieldset className="min-w-0">
      <legend className="mb-1 text-sm font-medium">Template</legend>
      <div className="grid auto-cols-[13rem] grid-flow-col gap-2 overflow-x-auto p-0.5 pb-2">
        <TemplateCard
          name={name}
          title="No template"
          text="Choose image and settings yourself."
          icon="plus"
          isChosen={chosen === undefined}
          onChoose={() => onChoose(undefined)}
        />
        {templates.map((template) => (
          <TemplateCard
            key={template.id}
            name={name}
            title={template.name}
            text={template.summary ?? imageText(template)}
            note={template.minVramGb === undefined ? undefined : `${template.minVramGb} GB GPU memory or more`}
            icon={templateIcons[template.icon ?? 'box']}
            isChosen={chosen === template.id}
            onChoose={() => onChoose(template.id)}
          />
        ))}
      </div>
    </fieldset>
  )
}

interface TemplateCardProps {
  readonly name: string
  readonly title: string
  readonly text: string
  readonly note?: string | undefined
  readonly icon: IconName
  readonly isChosen: boolean
  readonly onChoose: () => void
}

function TemplateCard({ name, title, text, note, icon, isChosen, onChoose }: TemplateCardProps) {
  return (
    <label
      className={cx(
        'relative flex min-w-0 cursor-pointer items-start gap-2.5 rounded-md border px-3 py-2.5 text-sm',
        'has-focus-visible:outline-2 has-focus-visible:outline-offset-1 has-focus-visible:outline-accent',
        isChosen ? 'border-accent bg-accent-soft' : 'border-line bg-surface hover:border-line-strong',
      )}
    >
      <input
        type="radio"
        name={name}
        checked={isChosen}
        onChange={onChoose}
        className="absolute inset-0 cursor-pointer opacity-0"
      />
      <Icon name={icon} className={cx('mt-0.5', isChosen ? 'text-accent' : 'text-muted')} />
      <span className="min-w-0">
        <span className="block truncate font-medium">{title}</span>
        <span className="line-clamp-2 text-xs text-muted">{text}</span>
        {note !== undefined && <span className="block text-xs text-muted">{note}</span>}
      </span>
    </label>
  )
}

interface ParamFieldsProps {
  readonly template: Template | undefined
  readonly values: Readonly<Record<string, string>>
  readonly onChange: (values: Readonly<Record<string, string>>) => void
}

/** One field for each environment variable that the template asks for. */
export function ParamFields({ template, values, onChange }: ParamFieldsProps) {
  const params = template?.params ?? []
  if (params.length === 0) return null
  return (
    <div className="grid items-start gap-3 sm:grid-cols-2">
      {params.map(({ name, description, secret, required }) => (
        <TextField
          key={name}
          label={name}
          required={required}
          hint={description}
          placeholder={secret ? '{{ secrets.NAME }}' : undefined}
          value={values[name] ?? ''}
          onChange={(event) => onChange({ ...values, [name]: event.target.value })}
        />
      ))}
    </div>
  )
}

interface SecretFieldsProps {
  readonly template: Template | undefined
  readonly named: readonly string[]
  readonly onChange: (named: readonly string[]) => void
  readonly error: string | undefined
}

/** The account's secrets that the template uses. Another account's template gets only those that are ticked. */
export function SecretFields({ template, named, onChange, error }: SecretFieldsProps) {
  const accountSecrets = useCall('listSecrets', undefined, { enabled: useMay('compute:read') }).data?.secrets
  const secrets = template?.secrets ?? []
  if (template === undefined || secrets.length === 0) return null
  if (template.owner === 'account') {
    return <p className="text-sm text-muted">This template uses your secrets {secrets.join(', ')}.</p>
  }
  const author = template.owner === 'operator' ? 'the operator' : 'another account'
  return (
    <fieldset className="flex flex-col gap-2">
      <legend className="mb-1 text-sm font-medium">Secrets that the template may use</legend>
      <p className="text-sm text-muted">
        This template is from {author}. Its programs can read and send on every secret that you allow.
      </p>
      {secrets.map((name) => (
        <CheckField
          key={name}
          label={name}
          {...(accountSecrets?.some((one) => one.name === name) === false
            ? { hint: 'You have no secret of this name. Create it on the page Secrets first.' }
            : {})}
          checked={named.includes(name)}
          onChange={(event) =>
            onChange(event.target.checked ? [...named, name] : named.filter((other) => other !== name))
          }
        />
      ))}
      {error !== undefined && (
        <p role="alert" className="text-sm text-bad">
          {error}
        </p>
      )}
    </fieldset>
  )
}
