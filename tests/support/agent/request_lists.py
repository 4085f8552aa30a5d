"""Messages that list something: separate requests, and what is one request with a list in it."""

from __future__ import annotations

SEVERAL: tuple[tuple[str, tuple[str, ...]], ...] = (
    # What was written, and the words that tell each request.
    (
        "Please do these:\n1. Book a table for two at Nico's on Friday\n"
        "2. Remind me to renew my passport in March",
        ("Nico's", "passport"),
    ),
    (
        "1) What is the capital of Mongolia?\n2) How long do I boil an egg?\n"
        "3) Write a short thank-you note to my landlord",
        ("Mongolia", "egg", "landlord"),
    ),
    (
        "- find me a plumber in Leeds\n- translate 'see you soon' into Portuguese\n"
        "- how many ounces are in a kilo?",
        ("plumber", "Portuguese", "ounces"),
    ),
    (
        "1. book a dentist appointment for next week 2. cancel my gym membership"
        " 3. look up the opening hours of the city library",
        ("dentist", "gym", "library"),
    ),
    (
        "First, find a birthday present for my father. Second, check whether my train to York"
        " is on time tomorrow.",
        ("birthday", "York"),
    ),
    (
        "Hi! I have three things today:\n\n"
        "* Draft an email to Mrs Okafor about the broken heating\n"
        "* What's the weather in Oslo this weekend?\n* Set a reminder for Tom's recital on Thursday"
        "\n\nThanks!",
        ("Okafor", "Oslo", "recital"),
    ),
    (
        "two questions:\n(1) why is the sky red at sunset?\n(2) can you recommend a good novel"
        " about the sea?",
        ("sunset", "novel"),
    ),
    (
        "Could you help me with a few things?\n1. Plan a weekend in Porto:\n   - museums\n"
        "   - seafood\n2. Summarise the plot of Middlemarch",
        ("Porto", "Middlemarch"),
    ),
    (
        "To do:\n- Order more printer paper\n- Email the accountant the March invoices\n"
        "- Compare the two phone contracts I sent you last week",
        ("printer", "accountant", "phone"),
    ),
    (
        "• Tell me how to get candle wax out of a tablecloth\n• Calculate 17% of 3,480\n"
        "• Suggest a name for a grey cat",
        ("wax", "3,480", "cat"),
    ),
    (
        "一、帮我订周五晚上两个人的餐厅\n二、提醒我三月去换护照",
        ("餐厅", "护照"),
    ),
    (
        "请帮我做以下几件事：\n1. 查一下明天去苏州的高铁时刻\n2. 写一封感谢房东的短信\n"
        "3. 推荐一本关于大海的小说",
        ("苏州", "房东", "小说"),
    ),
    (
        "①鸡蛋要煮几分钟？②“再见”用葡萄牙语怎么说？",
        ("鸡蛋", "葡萄牙语"),
    ),
    (
        "第一，帮我查一下图书馆的开放时间；第二，取消我的健身房会员。",
        ("图书馆", "健身房"),
    ),
    (
        "有两件事麻烦你：\n（1）给王老师写封邮件，说暖气坏了\n（2）周末奥斯陆天气怎么样？",
        ("王老师", "奥斯陆"),
    ),
    (
        "- 帮我找一个靠谱的水管工\n- 一公斤等于多少盎司？\n- 给灰色的小猫起个名字",
        ("水管工", "盎司", "小猫"),
    ),
    (
        "1、提醒我周四去看儿子的演出 2、算一下3480的百分之十七 3、桌布上的蜡烛油怎么去掉",
        ("演出", "3480", "蜡烛油"),
    ),
    (
        "你好，三个问题：\n1. 蒙古国的首都是哪里\n2. 为什么日落的时候天是红的\n"
        "3. 打印纸在哪儿买比较便宜",
        ("蒙古国", "日落", "打印纸"),
    ),
    (
        "第一件事：预约下周的牙医。第二件事：把上个月的发票发给会计。",
        ("牙医", "会计"),
    ),
    (
        "待办：\n* 订一箱矿泉水\n* 总结一下《米德尔马契》的情节\n* 比较这两个手机套餐\n\n谢谢！",
        ("矿泉水", "米德尔马契", "手机套餐"),
    ),
)

ONE: tuple[str, ...] = (
    "Buy:\n- milk\n- eggs\n- a loaf of bread",
    "How long does this recipe take?\n1. Preheat the oven to 200 degrees\n"
    "2. Mix flour, butter and sugar\n3. Bake for 40 minutes",
    "Which flight should I take?\n1. 7:40, two stops, 210 euros\n2. 11:15, direct, 340 euros",
    "Please translate these sentences into French:\n1. Where is the station?\n"
    "2. Can you help me?\n3. How much does it cost?",
    "1. Find a flight to Rome on Saturday\n2. Then book it with my usual card\n"
    "3. Send the confirmation to Anna",
    "Why does my script fail?\n```\n1. read the file\n2. find the total\n3. show the result\n```",
    "Plan a trip to Lisbon for us:\n- 4 nights in May\n- a hotel near the river\n"
    "- what should we see?",
    "[10:02] <ann> 1. can you restart the server?\n[10:03] <bob> 2. what is the error?\n"
    "[10:04] <ann> - please look at the log",
    "The agenda of tomorrow's meeting is\n1. Welcome\n2. Budget\n3. Any other business",
    "Roses are red,\nviolets are blue,\n- tell me, my friend,\n- what should I do?",
    "买：\n- 牛奶\n- 鸡蛋\n- 面包",
    "这个菜要做多久？\n1. 把鸡肉切块\n2. 热锅放油\n3. 小火炖四十分钟",
    "我该选哪个？\n一、早上七点四十，转机两次\n二、上午十一点，直飞",
    "请把下面的句子翻译成英文：\n1. 车站在哪里？\n2. 你能帮我吗？\n3. 这个多少钱？",
    "1. 查一下周六去成都的机票\n2. 然后用我常用的卡订一张\n3. 把它发给小李",
    "帮我安排五月去厦门的行程：\n- 四个晚上\n- 酒店要靠海\n- 有什么值得看的？",
    "会议纪要：\n1. 张总介绍了预算\n2. 下周三之前提交方案\n3. 下次会议定在周五",
    "1、门窗关好 2、带上身份证 3、提前两小时到机场",
    "老师问我们：①这首诗表达了什么感情？②你最喜欢哪一句？帮我写一份回答。",
    "帮我订一张去北京的票。另外，帮我选一个靠窗的座位。",
)
