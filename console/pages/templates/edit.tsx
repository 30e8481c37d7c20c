/** Creates or edits a template: a form with the fields of the setup, or all of them as JSON. */
import { FormDialog } from '../../form/dialog.tsx'
import { useCallForm, type Form } from '../../form/use-form.ts'
import { choicesIn } from '../../list/filter.tsx'
import { Button } from '../../ui/button.tsx'
import { SelectField, TextArea, TextField } from '../../ui/field.tsx'
import { toast } from '../../ui/toast.tsx'
import { checkAdvanced, noAdvanced } from '../rent/advanced.ts'
import { portsHint } from '../rent/ports.ts'
import { draftOf, fieldsOf, noDraft, restOf, type Draft, type Template } from './draft.ts'
import { templateFault, templateOfText } from './text.ts'

interface EditDialogProps {
  /** Absent: a new template. */
  readonly template?: Template
  readonly onClose: () => void
}

export function EditDialog({ template, onClose }: EditDialogProps) {
  const others = restOf(template)
  const operation = template === undefined ? 'createTemplate' : 'changeTemplate'
  const isOperators = template?.owner === 'operator'
  const form = useCallForm<typeof operation, Draft>(operation, {
    refreshes: ['listTemplates'],
    initial: draftOf(template),
    input: template === undefined ? undefined : { params: { id: template.id } },
    body: (draft) =>
      ({
        ...fieldsOf(draft, others, template),
        name: draft.name.trim(),
        ...(isOperators ? {} : { visibility: draft.visibility }),
      }) as never,
    check: ({ env, json, isJson }) => ({
      env: isJson ? undefined : checkAdvanced({ ...noAdvanced, env }, 0).env,
      json: isJson ? templateFault(json) : undefined,
    }),
    paths: { start: 'command' },
    onDone: ({ name, version }) => {
      toast(template === undefined ? `Created ${name}` : `${name} is at version ${version}`)
      onClose()
    },
  })
  const { isJson } = form.values
  return (
    <FormDialog
      form={form}
      title={template === undefined ? 'Create template' : `Edit ${template.name}`}
      action={template === undefined ? 'Create' : 'Save as new version'}
      wide
      onClose={onClose}
    >
      <div className="grid items-start gap-4 sm:grid-cols-2">
        <TextField label="Name" aria-required maxLength={255} {...form.text('name')} />
        {!isOperators && <SelectField label="Who can use it" choices={visibilities} {...form.text('visibility')} />}
      </div>
      {isJson ? <JsonField form={form} /> : <SetupFields form={form} />}
      <Button look="quiet" className="self-start" onClick={() => form.set(switched(form.values, others, template))}>
        {isJson ? 'Edit as a form' : 'Edit as JSON'}
      </Button>
    </FormDialog>
  )
}

/** The JSON has all fields; the form sends those that it does not show along. */
function switched(draft: Draft, others: Record<string, unknown>, template: Template | undefined): Partial<Draft> {
  if (!draft.isJson) return { isJson: true, json: JSON.stringify(fieldsOf(draft, others, template), null, 2) }
  if (templateFault(draft.json) !== undefined) return {}
  const { name: _name, visibility: _visibility, ...fields } = draftOf(templateOfText(draft.json))
  return { ...noDraft, ...fields, name: draft.name, visibility: draft.visibility, isJson: false }
}

const visibilities = choicesIn({ private: 'This account', link: 'Anyone who knows its ID' })

const iconChoices = choicesIn({
  box: 'Box',
  terminal: 'Terminal',
  flame: 'Flame',
  notebook: 'Notebook',
  message: 'Message',
  image: 'Image',
  chart: 'Chart',
  code: 'Code',
})

function JsonField({ form }: { form: Form<Draft> }) {
  return (
    <TextArea
      label="Fields (JSON)"
      rows={16}
      spellCheck={false}
      hint="image, command, args, env, files, onStart, ports, diskGb, shmGb, minVramGb, params, readme"
      {...form.text('json')}
    />
  )
}

function SetupFields({ form }: { form: Form<Draft> }) {
  const lines = { rows: 3, spellCheck: false }
  return (
    <>
      <div className="grid items-start gap-4 sm:grid-cols-[minmax(0,1fr)_10rem]">
        <TextField label="Summary" placeholder="Fine-tunes a model with LoRA" {...form.text('summary')} />
        <SelectField label="Icon" choices={iconChoices} {...form.text('icon')} />
      </div>
      <div className="grid items-start gap-4 sm:grid-cols-2">
        <TextField
          label="Image"
          placeholder="pytorch/pytorch:2.9.1-cuda13.0"
          hint="Empty: the image that the host has already."
          {...form.text('image')}
        />
        <TextField label="Ports" placeholder="8080, 8888/http" hint={portsHint} {...form.text('ports')} />
        <TextArea
          label="Environment variables"
          placeholder={'HF_TOKEN={{ secrets.HF_TOKEN }}\nMODE=train'}
          hint="One NAME=value per line. Values can refer to secrets."
          {...lines}
          {...form.text('env')}
        />
        <TextArea
          label="Start command"
          placeholder="python train.py"
          hint="Runs with /bin/sh instead of the image's entrypoint."
          {...lines}
          {...form.text('start')}
        />
        <TextArea
          label="Script at every start"
          placeholder="pip install -r /data/requirements.txt"
          hint="Runs beside the entrypoint; its output is in the log."
          {...lines}
          {...form.text('onStart')}
        />
        <TextArea label="Description" hint="Markdown, shown under Details." {...lines} {...form.text('readme')} />
        <TextField label="Disk (GB)" inputMode="decimal" placeholder="Default" {...form.text('diskGb')} />
        <TextField
          label="GPU memory (GB)"
          inputMode="decimal"
          placeholder="Any"
          hint="What each GPU needs."
          {...form.text('minVramGb')}
        />
      </div>
    </>
  )
}
