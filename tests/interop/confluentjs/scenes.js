// The scenes of @confluentinc/kafka-javascript against a broker: `node scenes.js SCENE BOOTSTRAP NAME [PROTOCOL]` prints
// a line for each finding. All but `callbacks` use its interface after KafkaJS; that one the interface of node-rdkafka.
'use strict'

const { KafkaConsumer, Producer, KafkaJS } = require('@confluentinc/kafka-javascript')
const { Kafka, logLevel } = KafkaJS

const [scene, bootstrap, name, protocol = 'classic'] = process.argv.slice(2)
const kafka = new Kafka({
  kafkaJS: { clientId: 'interop', brokers: [bootstrap], logLevel: logLevel.NOTHING },
  'reconnect.backoff.max.ms': 500,
})

function expect(holds, what) {
  if (!holds) throw new Error(what)
}

function timer(milliseconds) {
  return new Promise(resolve => setTimeout(resolve, milliseconds))
}

async function until(what, holds) {
  for (const start = Date.now(); !holds();) {
    expect(Date.now() - start < 60000, `it did not happen in time: ${what}`)
    await timer(20)
  }
}

async function connected(client, work) {
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.disconnect()
  }
}

async function topicOf(suffix, numPartitions) {
  const topic = `${name}-${suffix}`
  await connected(kafka.admin(), admin => admin.createTopics({ topics: [{ topic, numPartitions }] }))
  return topic
}

function consumerOf(groupId, options = {}, settings = {}) {
  return kafka.consumer({
    kafkaJS: { groupId, fromBeginning: true, autoCommit: false, maxWaitTimeInMs: 100, ...options },
    'group.protocol': protocol, ...settings,
  })
}

// The messages of a topic, all of them, until `count` are there or nothing more comes.
async function read(topic, { count, readUncommitted = false }) {
  const messages = []
  const consumer = consumerOf(`${topic}-${readUncommitted}-reader`, { readUncommitted })
  await connected(consumer, async () => {
    await consumer.subscribe({ topics: [topic] })
    let last = Date.now()
    await consumer.run({
      eachMessage: async ({ partition, message }) => {
        messages.push({ ...message, partition, text: message.value && message.value.toString() })
        last = Date.now()
      },
    })
    // One record too many would come at once.
    await until(`${count} records, ${messages.length} are there`, () => messages.length >= count)
    await until('quiet', () => Date.now() - last > 500)
  })
  return messages
}

const scenes = {
  async records() {
    for (const compression of ['none', 'gzip', 'snappy', 'lz4']) {
      const topic = await topicOf(compression, 1)
      await connected(kafka.producer({ kafkaJS: { compression } }), async producer => {
        const messages = Array.from({ length: 1000 }, (_, number) => ({
          key: `key ${number}`, value: `the same text again and again ${number}`, headers: { number: `${number}` },
        }))
        await producer.send({ topic, messages: [...messages, { key: 'null', value: null }] })
      })
      const messages = await read(topic, { count: 1001 })
      messages.forEach(({ offset, key, headers, text }, index) => {
        expect(offset === `${index}`, `offset ${offset} at ${index}`)
        if (index === 1000) return expect(text === null, 'the null value')
        expect(key.toString() === `key ${index}`, `key at ${index}`)
        expect(headers.number.toString() === `${index}`, `header at ${index}`)
        expect(text.endsWith(` ${index}`), `value at ${index}`)
      })
      console.log(`${compression}: ${messages.length} in order`)
    }
  },

  async idempotent() {
    const topic = await topicOf('idempotent', 1)
    await connected(kafka.producer({ kafkaJS: { idempotent: true } }), producer =>
      Promise.all(Array.from({ length: 200 }, (_, number) => producer.send({ topic, messages: [{ value: `${number}` }] }))))
    const messages = await read(topic, { count: 200 })
    expect(messages.every(({ text }, index) => text === `${index}`), 'out of order')
    console.log(`${messages.length} in order`)
  },

  async transactions() {
    const topic = await topicOf('transactions', 3)
    await connected(kafka.producer({ kafkaJS: { transactionalId: name } }), async producer => {
      for (let round = 0; round < 6; round++) {
        const transaction = await producer.transaction()
        for (let partition = 0; partition < 3; partition++) {
          await transaction.send({ topic, messages: [{ partition, value: `${round}-${partition}` }] })
        }
        await (round % 2 ? transaction.abort() : transaction.commit())
      }
    })
    for (const [level, readUncommitted, count] of [['read_committed', false, 9], ['read_uncommitted', true, 18]]) {
      const messages = await read(topic, { count, readUncommitted })
      console.log(level, messages.map(({ text }) => text).sort().join(' '))
    }
  },

  async fencing() {
    const topic = await topicOf('fencing', 1)
    const [zombie, successor] = [0, 1].map(() => kafka.producer({ kafkaJS: { transactionalId: name } }))
    await zombie.connect()
    const old = await zombie.transaction()
    await old.send({ topic, messages: [{ value: 'zombie' }] })
    await successor.connect()
    const fresh = await successor.transaction()
    await fresh.send({ topic, messages: [{ value: 'successor' }] })
    console.log('commit refused:', await old.commit().then(() => 'nothing', error => error.type))
    await fresh.commit()
    await successor.disconnect()
    await zombie.disconnect()
    console.log((await read(topic, { count: 1 })).map(({ text }) => text).join(' '))
  },

  // Read, write and commit offsets with the transaction; each third transaction is aborted and done again. After an
  // error a new producer and a new consumer with the same ids go on from what the group has committed.
  async transform() {
    const count = 600
    const source = await topicOf('source', 4)
    const sink = await topicOf('sink', 1)
    await connected(kafka.producer(), producer => producer.send({
      topic: source,
      messages: Array.from({ length: count }, (_, number) => ({ partition: number % 4, value: `${number}` })),
    }))
    const partitions = [0, 1, 2, 3].map(partition => ({ topic: source, partition }))
    const positions = [0, 0, 0, 0]
    const isDone = () => positions.reduce((sum, offset) => sum + offset, 0) === count
    let transactions = 0

    async function transformBatch(producer, consumer, { partition, messages }) {
      const offset = (BigInt(messages[messages.length - 1].offset) + 1n).toString()
      for (let isCommitted = false; !isCommitted;) {
        const transaction = await producer.transaction()
        await transaction.send({ topic: sink, messages: messages.map(({ value }) => ({ value })) })
        await transaction.sendOffsets({ consumer, topics: [{ topic: source, partitions: [{ partition, offset }] }] })
        isCommitted = ++transactions % 3 !== 0
        await (isCommitted ? transaction.commit() : transaction.abort())
        // From here on the broker may be killed: there is something to lose, and something to do.
        if (transactions === 1) console.log('loaded')
        await timer(40)
      }
      positions[partition] = Number(offset)
    }

    async function work(producer, consumer) {
      let failed = null
      await producer.connect()
      await consumer.connect()
      // A commit that failed may have succeeded: the group knows.
      for (const { partition, offset } of await consumer.committed(partitions, 5000)) {
        positions[partition] = Math.max(0, Number(offset) || 0)
      }
      await consumer.subscribe({ topics: [source] })
      await consumer.run({
        eachBatch: async ({ batch }) => {
          if (failed) return timer(20)
          await transformBatch(producer, consumer, batch).catch(error => { failed = error })
        },
      })
      await until('the work is done', () => failed || isDone())
      if (failed) throw failed
    }

    while (!isDone()) {
      const producer = kafka.producer({ kafkaJS: { transactionalId: name, transactionTimeout: 10000 } })
      const session = protocol === 'classic' ? { sessionTimeout: 6000, heartbeatInterval: 200 } : {}
      const consumer = consumerOf(name, session, { 'js.consumer.max.batch.size': 20 })
      await work(producer, consumer).catch(console.error)
      await consumer.disconnect().catch(() => {})
      await producer.disconnect().catch(() => {})
    }
    const texts = (await read(sink, { count })).map(({ text }) => text)
    console.log(`${texts.length} records, ${new Set(texts).size} different`)
  },

  async group() {
    const topic = await topicOf('shared', 4)
    const members = [0, 1].map(() => consumerOf(`${name}-group`))
    const assigned = member => member.assignment().map(({ partition }) => partition)
    for (const member of members) {
      await member.connect()
      await member.subscribe({ topics: [topic] })
      await member.run({ eachMessage: async () => {} })
    }
    await until('shared', () => members.every(member => assigned(member).length === 2))
    console.log('shared:', members.flatMap(assigned).sort().join(' '))
    await members[1].disconnect()
    await until('taken over', () => assigned(members[0]).length === 4)
    console.log('taken over:', assigned(members[0]).sort().join(' '))
    await members[0].disconnect()
  },

  async resume() {
    const topic = await topicOf('resume', 1)
    await connected(kafka.producer(), producer =>
      producer.send({ topic, messages: Array.from({ length: 10 }, (_, number) => ({ value: `${number}` })) }))
    for (const take of [4, 6]) {
      const consumer = consumerOf(name)
      const seen = []
      let isCommitted = false
      await connected(consumer, async () => {
        await consumer.subscribe({ topics: [topic] })
        await consumer.run({
          eachMessage: async ({ message }) => {
            if (seen.length === take) return
            seen.push(message.value.toString())
            const offset = (BigInt(message.offset) + 1n).toString()
            await consumer.commitOffsets([{ topic, partition: 0, offset }])
            isCommitted = seen.length === take
          },
        })
        await until(`${take} records`, () => isCommitted)
      })
      console.log(seen.join(' '))
    }
  },

  async admin() {
    await connected(kafka.admin(), async admin => {
      const topic = `${name}-admin`
      const request = { topics: [{ topic, numPartitions: 3, configEntries: [{ name: 'retention.ms', value: '3600000' }] }] }
      console.log('created:', await admin.createTopics(request), 'again:', await admin.createTopics(request))
      const [{ partitions }] = await admin.fetchTopicMetadata({ topics: [topic] })
      console.log('partitions:', partitions.length)
      await connected(kafka.producer(), producer =>
        producer.send({ topic, messages: Array.from({ length: 10 }, () => ({ partition: 0, value: 'x' })) }))
      await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '4' }] })
      const offsets = (await admin.fetchTopicOffsets(topic)).find(({ partition }) => partition === 0)
      console.log('offsets:', offsets.low, 'to', offsets.high)
      const consumer = consumerOf(name)
      await connected(consumer, async () => {
        await consumer.subscribe({ topics: [topic] })
        await consumer.run({ eachMessage: async () => {} })
        await until('assigned', () => consumer.assignment().length === 3)
        await consumer.commitOffsets([{ topic, partition: 0, offset: '7' }])
        const described = (await admin.describeGroups([name])).groups[0]
        console.log('described:', described.members.length, described.partitionAssignor)
      })
      const [committed] = await admin.fetchOffsets({ groupId: name, topics: [{ topic, partitions: [0] }] })
      console.log('committed:', committed.partitions[0].offset)
      console.log('listed:', (await admin.listGroups()).groups.some(({ groupId }) => groupId === name))
      await admin.deleteGroups([name])
      await admin.deleteTopics({ topics: [topic] })
      console.log('left:', (await admin.listTopics()).includes(topic))
    })
  },

  async callbacks() {
    const topic = await topicOf('callbacks', 1)
    const called = (client, method, ...given) => new Promise((resolve, reject) =>
      client[method](...given, (error, value) => error ? reject(error) : resolve(value)))
    const settings = { 'metadata.broker.list': bootstrap, 'transactional.id': name, dr_cb: true }
    const producer = new Producer(settings)
    await called(producer, 'connect', {})
    producer.setPollInterval(20)
    const delivered = []
    producer.on('delivery-report', (error, report) => delivered.push(error ? error.message : report.offset))
    await called(producer, 'initTransactions', 30000)
    for (const [text, end] of [['kept', 'commitTransaction'], ['dropped', 'abortTransaction'], ['kept too', 'commitTransaction']]) {
      await called(producer, 'beginTransaction')
      producer.produce(topic, 0, Buffer.from(text), 'key')
      await called(producer, 'flush', 30000)
      await called(producer, end, 30000)
    }
    await until('three reports', () => delivered.length === 3)
    console.log('delivered at:', delivered.join(' '))
    const successor = new Producer(settings)
    await called(successor, 'connect', {})
    await called(successor, 'initTransactions', 30000)
    await called(producer, 'beginTransaction')
    producer.produce(topic, 0, Buffer.from('zombie'), 'key')
    const refused = await called(producer, 'commitTransaction', 30000).catch(error => error)
    console.log('fenced:', refused.isFatal)
    await called(producer, 'disconnect')
    await called(successor, 'disconnect')

    const consumer = new KafkaConsumer(
      { 'metadata.broker.list': bootstrap, 'group.id': name, 'enable.auto.commit': false, 'group.protocol': protocol },
      { 'auto.offset.reset': 'earliest' },
    )
    const seen = []
    await called(consumer, 'connect', {})
    consumer.subscribe([topic])
    consumer.on('data', message => {
      seen.push(message.value.toString())
      consumer.commitMessageSync(message)
    })
    consumer.consume()
    await until('two records', () => seen.length >= 2)
    const [{ offset }] = await called(consumer, 'committed', [{ topic, partition: 0 }], 30000)
    console.log('read:', seen.join(', '), 'committed:', offset)
    await called(consumer, 'disconnect')
  },
}

scenes[scene]().then(
  () => process.exit(0),
  error => {
    console.error(error)
    process.exit(1)
  },
)
