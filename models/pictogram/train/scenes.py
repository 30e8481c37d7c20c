"""Makes up scenes: what stands where in which colour before which background, and the prompt that says so.

All choices come from one seeded generator per worker. Some pairs of a colour and a name, and some synonyms, are never
used in training; `is_held_out` says which, so that the evaluation can ask for exactly those.
"""
import hashlib
import itertools
import json
import random

from words import COLOURS, COLOUR_WORDS, EVERYDAY, NUMBERS, PAINTS, PLACES

MAX_ITEMS = 9
ITEM_FIELDS = 7  # sprite, paint (-1: its own colours), x, y, size, rotation, unused
HELD_OUT_PERCENT = 10
MANNERS = [
    'a drawing of {}', 'an icon of {}', 'a picture of {}', 'an emoji of {}', 'a pictogram of {}', 'a flat icon of {}',
    'a simple illustration of {}', 'clip art of {}', '{} icon', '{} emoji', '{}, flat illustration', 'an image of {}',
]
STYLES = {
    'fluent-emoji-flat': ['in flat style', 'flat design', 'minimal'],
    'noto': ['in cartoon style', 'detailed', 'shaded'],
    'noto-v1': ['in soft style', 'in blob style'],
}
SIDES = {
    'in the top left corner': (0.27, 0.27), 'in the top right corner': (0.73, 0.27),
    'in the bottom left corner': (0.27, 0.73), 'in the bottom right corner': (0.73, 0.73),
    'at the top': (0.5, 0.27), 'at the bottom': (0.5, 0.73), 'on the left': (0.27, 0.5), 'on the right': (0.73, 0.5),
}


def hash_percent(text):
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], 'big') % 100


def is_held_out(*parts):
    """For a pair of colour and name, or of name and synonym."""
    return hash_percent(' / '.join(parts)) < HELD_OUT_PERCENT


def article(name):
    return ('an ' if name[0] in 'aeiou' else 'a ') + name


def plural(name):
    for link in (' with ', ' of ', ' in ', ' on ', ' without '):
        if link in name:
            head, rest = name.split(link, 1)
            return plural(head) + link + rest
    if name.endswith(('s', 'x', 'ch', 'sh')):
        return name if name.endswith('s') else name + 'es'
    if name.endswith('y') and name[-2:-1] not in 'aeiou':
        return name[:-1] + 'ies'
    return name + 's'


def without_colour(name):
    words = name.split(' ')
    while len(words) > 1 and words[0] in COLOUR_WORDS:
        words = words[1:]
    return ' '.join(words)


class SceneMaker:
    """`facts[i]` of a sprite: whether it can be painted, and the word for its own colour, if one covers most of it."""

    def __init__(self, index, facts, seed, with_held_out=False):
        self.random = random.Random(seed)
        self.concepts = index['concepts']
        self.sprites = index['sprites']
        self.facts = facts
        self.of_concept = [[] for _ in self.concepts]
        for i, sprite in enumerate(self.sprites):
            if facts[i]['drawn']:
                self.of_concept[sprite['concept']].append(i)
        names = {concept['name']: i for i, concept in enumerate(self.concepts)}
        self.everyday = [[] for _ in self.concepts]
        for word, targets in EVERYDAY.items():
            for target in targets:
                self.everyday[names[target]].append(word)
        self.usable = [
            i for i, concept in enumerate(self.concepts)
            if self.of_concept[i] and (with_held_out or not concept['isHeldOut'])
        ]
        # Smileys and people are a third of all names, and nobody asks for each of them as often as for a dog.
        weights = [0.5 if self.concepts[i]['group'] in ('smileys-emotion', 'people-body') else
                   1.0 + 0.6 * min(2, len(self.everyday[i])) for i in self.usable]
        self.weights = list(itertools.accumulate(weights))

    def pick(self):
        concept = self.random.choices(self.usable, cum_weights=self.weights)[0]
        return concept, self.random.choice(self.of_concept[concept])

    def name(self, concept):
        chance = self.random.random()
        if self.everyday[concept] and chance < 0.4:
            return self.random.choice(self.everyday[concept])
        entry = self.concepts[concept]
        allowed = [word for word in entry['synonyms'] if not is_held_out(entry['name'], word)]
        if allowed and chance > 0.82:
            return self.random.choice(allowed)
        return entry['name']

    def thing(self):
        """A sprite with its paint and what one calls it."""
        concept, sprite = self.pick()
        name = self.name(concept)
        facts = self.facts[sprite]
        chance = self.random.random()
        if facts['paintable'] and chance < 0.42:
            paint = self.random.choice(PAINTS)
            bare = without_colour(name)
            if not is_held_out(paint, self.concepts[concept]['name']):
                return concept, sprite, PAINTS.index(paint), f'{paint} {bare}'
        if facts['colour'] is not None and chance > 0.8 and name == without_colour(name):
            return concept, sprite, -1, f"{facts['colour']} {name}"
        return concept, sprite, -1, name

    def make(self):
        r = self.random
        background = {'top': None, 'bottom': None, 'ground': 1.0, 'ground_colour': (0, 0, 0), 'stars': 0.0, 'badge': None}
        where = ''
        stands = None
        chance = r.random()
        if chance < 0.3:
            colour = r.choice(list(COLOURS))
            where = r.choice(['on {}', 'on a {} background', '{} background', 'on {} background', 'with a {} background'])
            where = where.format(colour)
            background['top'] = background['bottom'] = self.jitter(COLOURS[colour])
        elif chance < 0.48:
            where = r.choice(list(PLACES))
            top, bottom, ground, ground_colour, stars = PLACES[where]
            background.update(top=self.jitter(top), bottom=self.jitter(bottom), stars=stars, ground=ground)
            if ground_colour is not None:
                background.update(ground=ground + r.uniform(-0.04, 0.04), ground_colour=self.jitter(ground_colour))
                stands = background['ground'] + 0.1
        else:
            light = r.random() < 0.45
            shade = tuple(r.uniform(222, 255) for _ in range(3)) if light else (255, 255, 255)
            background['top'] = background['bottom'] = shade
        layout = r.random()
        if layout < 0.56:
            items, text, concepts = self.single(stands, background)
        elif layout < 0.71:
            items, text, concepts = self.several(stands)
        elif layout < 0.94:
            items, text, concepts = self.pair(stands)
        elif layout < 0.98:
            items, text, concepts = self.triple(stands)
        else:
            items, text, concepts = self.pattern()
        if where:
            text = f'{text} {where}' if r.random() < 0.75 else f'{text}, {where}'
        if r.random() < 0.08:
            style = r.choice(STYLES[self.sprites[items[0][0]]['set']])
            text = f'{text}, {style}'
        return {'items': items, 'text': text, 'background': background, 'concepts': concepts}

    def jitter(self, colour):
        return tuple(min(255.0, max(0.0, c + self.random.uniform(-10, 10))) for c in colour)

    def item(self, sprite, paint, x, y, size):
        turn = self.random.uniform(-0.16, 0.16) if self.random.random() < 0.15 else 0.0
        return (sprite, paint, x, y, size, turn, 0.0)

    def single(self, stands, background):
        r = self.random
        concept, sprite, paint, name = self.thing()
        size = r.uniform(0.58, 0.82)
        x, y = 0.5 + r.uniform(-0.03, 0.03), 0.5 + r.uniform(-0.03, 0.03)
        text = article(name) if r.random() < 0.75 else name
        chance = r.random()
        if chance < 0.06:
            size = r.uniform(0.22, 0.32)
            text = r.choice(['a small {}', 'a tiny {}', 'a little {}']).format(name)
        elif chance < 0.12:
            size = r.uniform(0.88, 0.98)
            text = r.choice(['a big {}', 'a huge {}', 'a large {}', 'close-up of a {}']).format(name)
        elif chance < 0.2:
            side = r.choice(list(SIDES))
            x, y = SIDES[side]
            size = r.uniform(0.36, 0.46)
            return [self.item(sprite, paint, x, y, size)], f'{text} {side}', [concept]
        elif chance < 0.27:
            colour = r.choice(list(COLOURS))
            shape = r.choice(['circle', 'square'])
            background['badge'] = (shape, self.jitter(COLOURS[colour]), r.uniform(0.8, 0.92))
            text = r.choice(['{} on a {} {}', '{} in a {} {}', '{} inside a {} {}']).format(text, colour, shape)
            return [self.item(sprite, paint, 0.5, 0.5, r.uniform(0.46, 0.56))], text, [concept]
        elif r.random() < 0.4:
            text = r.choice(MANNERS).format(text)
        if stands is not None:
            y = min(stands - size / 2 + 0.04, 0.98 - size / 2)
        return [self.item(sprite, paint, x, y, size)], text, [concept]

    def several(self, stands):
        r = self.random
        concept, sprite, paint, name = self.thing()
        count = r.choice([2, 2, 3, 3, 3, 4, 4, 5, 6])
        text = f'{r.choice(NUMBERS[count])} {plural(name)}'
        if count <= 4 and (r.random() < 0.55 or stands is not None):
            places = [((i + 0.5) / count, 0.5) for i in range(count)]
            places = [(0.5 + (x - 0.5) * 0.94, y) for x, y in places]
            size = {2: 0.42, 3: 0.29, 4: 0.22}[count] * r.uniform(0.92, 1.04)
            if r.random() < 0.3:
                text = f'a row of {NUMBERS[count][0] if count > 2 else "two"} {plural(name)}'
        else:
            columns = {2: [1, 1], 3: [1, 2], 4: [2, 2], 5: [2, 3], 6: [3, 3]}[count]
            places = [((k + 0.5) / n, (row + 0.5) / 2) for row, n in enumerate(columns) for k in range(n)]
            places = [(0.5 + (x - 0.5) * 0.92, 0.5 + (y - 0.5) * 0.92) for x, y in places]
            size = (0.4 if max(columns) < 3 else 0.29) * r.uniform(0.9, 1.02)
        rise = 0.0 if stands is None else stands - size / 2 - 0.5
        items = [self.item(sprite, paint, x, y + rise, size) for x, y in places]
        return items, text, [concept]

    def pair(self, stands):
        r = self.random
        a, b = self.thing(), self.thing()
        first, second = (article(one[3]) if r.random() < 0.85 else one[3] for one in (a, b))
        size = r.uniform(0.4, 0.46)
        kind = r.random()
        if kind < 0.72 or stands is not None:
            link = r.choice(['and', 'and', 'beside', 'next to', 'with', 'to the left of', 'left of', 'near'])
            swap = r.random() < 0.15
            if swap:
                link = r.choice(['to the right of', 'right of'])
            y = 0.5 if stands is None else stands - size / 2 + 0.02
            places = [(0.265, y), (0.735, y)]
            if swap:
                places.reverse()
        else:
            above = r.random() < 0.6
            link = r.choice(['above', 'over', 'on top of'] if above else ['below', 'under', 'underneath'])
            places = [(0.5, 0.265), (0.5, 0.735)]
            if not above:
                places.reverse()
        items = [self.item(one[1], one[2], x, y, size) for one, (x, y) in zip((a, b), places)]
        return items, f'{first} {link} {second}', [a[0], b[0]]

    def triple(self, stands):
        r = self.random
        things = [self.thing() for _ in range(3)]
        size = r.uniform(0.27, 0.3)
        y = 0.5 if stands is None else stands - size / 2
        items = [self.item(one[1], one[2], x, y, size) for one, x in zip(things, (0.18, 0.5, 0.82))]
        a, b, c = (article(one[3]) for one in things)
        return items, f'{a}, {b} and {c}', [one[0] for one in things]

    def pattern(self):
        concept, sprite, paint, name = self.thing()
        items = [self.item(sprite, paint, x, y, 0.25) for y in (0.18, 0.5, 0.82) for x in (0.18, 0.5, 0.82)]
        text = self.random.choice(['a pattern of {}', 'many {}', 'nine {}', 'a lot of {}']).format(plural(name))
        return items, text, [concept]


def read_index(folder):
    with open(f'{folder}/sprites.json') as file:
        return json.load(file)
